use std::collections::BTreeMap;

use lockwright_core::backend_util::{percent, split_port};
use lockwright_core::redact;

use crate::keys::Keys;
use crate::tls::Security;

pub(crate) const FORM: &str = "etcd:http://[user:password@]host[:port],http://host[:port],…[?prefix=…&names=raw], or with TLS \
     etcd:https://host[:port],…[?ca=FILE&cert=FILE&key=FILE]";

const PREFIX: &str = "lockwright/";

const PARAMETERS: [&str; 5] = ["prefix", "names", "ca", "cert", "key"];

#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) endpoints: Vec<String>,
    pub(crate) login: Option<(String, String)>,
    pub(crate) security: Security,
    pub(crate) keys: Keys,
}

pub(crate) fn read(url: &str) -> Result<Contents, String> {
    let rest = url.trim().strip_prefix("etcd:").ok_or("there is no etcd URL")?;
    let (members, query) = rest.split_once('?').unwrap_or((rest, ""));
    if members.contains('#') || query.contains('#') {
        return Err("there is a #, which is %23 in a URL".into());
    }
    let mut parameters = parameters(query)?;
    let (mut endpoints, mut login, mut secured) = (Vec::new(), None, None);
    for member in members.split(',') {
        let member = Member::of(member)?;
        if *secured.get_or_insert(member.secured) != member.secured {
            return Err("some members are reached by http: and some by https:".into());
        }
        if let Some(found) = member.login
            && login.get_or_insert_with(|| found.clone()) != &found
        {
            return Err("the members have different logins, and users are the cluster's".into());
        }
        if endpoints.contains(&member.endpoint) {
            return Err(format!("{} is listed twice", member.endpoint));
        }
        endpoints.push(member.endpoint);
    }
    let security = Security::take(|name| parameters.remove(name), secured == Some(true))?;
    let raw = match parameters.remove("names").as_deref() {
        None => false,
        Some("raw") => true,
        Some(other) => {
            return Err(format!("names={other} is unknown; the only value is names=raw"));
        }
    };
    let prefix = parameters.remove("prefix").unwrap_or_else(|| PREFIX.to_owned());
    Ok(Contents { endpoints, login, security, keys: Keys { prefix, raw } })
}

/// Returns the URL with passwords, logins without a colon, and unknown parameters masked.
pub(crate) fn shown(url: &str) -> String {
    let shown = redact::url(&redact::without_hidden_password(url));
    let (members, query) = match shown.split_once('?') {
        Some((members, query)) => (members, Some(query)),
        None => (&*shown, None),
    };
    let members: Vec<_> = members.split(',').map(redact::without_lone_login).collect();
    let mut text = members.join(",");
    for (at, parameter) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        let name = parameter.split('=').next().unwrap_or_default();
        text.push_str(if PARAMETERS.contains(&name) { parameter } else { "***" });
    }
    text
}

struct Member {
    endpoint: String,
    secured: bool,
    login: Option<(String, String)>,
}

impl Member {
    fn of(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("a member lacks http:// or https://")?;
        let secured = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("a member is reached by something else than http: or https:".into()),
        };
        let (login, host) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, host)) => (Some(Self::login(login)?), host),
        };
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('/') {
            return Err("there is a path behind a host (or a / in a password, which is %2F)".into());
        }
        let (name, port) = split_port(host);
        if name.is_empty() {
            return Err("a host is missing".into());
        }
        // Don't quote the port, because it may be a password.
        let port: u16 = port.map_or(Ok(2_379), str::parse).map_err(|_| {
            "the text after a host is not a port up to 65535 (a password must be followed by \
                 an @)"
        })?;
        let scheme = if secured { "https" } else { "http" };
        Ok(Self { endpoint: format!("{scheme}://{name}:{port}"), secured, login })
    }

    fn login(text: &str) -> Result<(String, String), String> {
        let (user, password) =
            text.split_once(':').ok_or("a user without a password precedes an @")?;
        let decoded = |part| {
            percent::decode(part)
                .ok_or("the user or the password has a % that isn't percent-encoded as %25")
        };
        let (user, password) = (decoded(user)?, decoded(password)?);
        if user.is_empty() {
            return Err("the user is missing before the password".into());
        }
        Ok((user, password))
    }
}

fn parameters(query: &str) -> Result<BTreeMap<&str, String>, String> {
    let mut parameters = BTreeMap::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if !PARAMETERS.contains(&name) {
            let name = if parameter.contains('=') { name } else { "***" };
            let known = PARAMETERS.join(", ");
            return Err(format!("the parameter {name:?} is unknown (use {known})"));
        }
        let value = percent::decode(value)
            .ok_or_else(|| format!("{name} has a % that isn't percent-encoded"))?;
        if parameters.insert(name, value).is_some() {
            return Err(format!("the parameter {name:?} is listed twice"));
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_parameters_are_parsed() {
        let found = read("etcd:http://me:a%40b@a:1,http://b,http://[::1]:3/?prefix=x%2F&names=raw");
        let found = found.unwrap();
        assert_eq!(found.endpoints, ["http://a:1", "http://b:2379", "http://[::1]:3"]);
        assert_eq!(found.login, Some(("me".to_owned(), "a@b".to_owned())));
        assert_eq!(found.keys, Keys { prefix: "x/".to_owned(), raw: true });
        let plain = read("etcd:http://a").unwrap();
        assert_eq!(plain.keys, Keys { prefix: "lockwright/".to_owned(), raw: false });
        assert_eq!(plain.login, None);
    }

    #[test]
    fn url_errors_name_the_problem_without_secrets() {
        for (url, says) in [
            ("http://a", "no etcd URL"),
            ("etcd:a:2379", "lacks http://"),
            ("etcd:ftp://a", "something else"),
            ("etcd:http://", "host is missing"),
            ("etcd:http://me:hush", "not a port"),
            ("etcd:http://hush@a", "without a password"),
            ("etcd:http://:hush@a", "user is missing"),
            ("etcd:http://me:hu/sh@a/b", "path"),
            ("etcd:http://a,http://a:2379", "twice"),
            ("etcd:http://me:hush@a,http://you:hush@b", "different logins"),
            ("etcd:http://a,https://b", "some by https"),
            ("etcd:http://a?hush", "is unknown"),
            ("etcd:http://a?password=hush", "\"password\" is unknown (use prefix, names, ca"),
            ("etcd:http://a?prefix=1&prefix=2", "twice"),
            ("etcd:http://a?names=cooked", "names=cooked"),
            ("etcd:http://a#x", "%23"),
            ("etcd:http://a?ca=/x", "https"),
        ] {
            let what = read(url).unwrap_err();
            assert!(what.contains(says), "{url}: {what}");
            let error = crate::Config::new(url).unwrap_err();
            assert!(!format!("{error:?}").contains("hu"), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("can't be used: "), "{text}");
            for parameter in ["prefix=", "names=", "ca=", "cert=", "key="] {
                assert!(text.contains(parameter), "{text}");
            }
        }
    }
}
