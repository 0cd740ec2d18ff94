use lockwright_core::backend_util::url::{self, Parameters};

use crate::keys::Keys;
use crate::tls::Security;

pub(crate) const FORM: &str = "etcd:http://[user:password@]host[:port],http://host[:port],…[?prefix=…&names=raw], or with TLS \
     etcd:https://host[:port],…[?ca=FILE&cert=FILE&key=FILE]";

const PREFIX: &str = "lockwright/";

pub(crate) const PARAMETERS: [&str; 5] = ["prefix", "names", "ca", "cert", "key"];

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
    let mut parameters = Parameters::parse(query, &PARAMETERS)?;
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
    let security = Security::take(|name| parameters.take(name), secured == Some(true))?;
    let raw = match parameters.take("names").as_deref() {
        None => false,
        Some("raw") => true,
        Some(other) => {
            return Err(format!("names={other} is unknown; the only value is names=raw"));
        }
    };
    let prefix = parameters.take("prefix").unwrap_or_else(|| PREFIX.to_owned());
    Ok(Contents { endpoints, login, security, keys: Keys { prefix, raw } })
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
            Some((login, host)) => (Some(url::login(login)?), host),
        };
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('/') {
            return Err("there is a path behind a host (or a / in a password, which is %2F)".into());
        }
        // `false`: errors don't quote the host, which may be a part of a password with a comma.
        let (name, port) = url::host(host, Some(2_379), false)?;
        let scheme = if secured { "https" } else { "http" };
        Ok(Self { endpoint: format!("{scheme}://{name}:{port}"), secured, login })
    }
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
            ("etcd:http://me:p@a:hush,x@b", "not a port"),
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
