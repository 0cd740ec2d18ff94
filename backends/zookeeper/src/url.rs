use std::time::Duration;

use lockwright_core::backend_util::percent;
use lockwright_core::backend_util::url::{self, Parameters};
use lockwright_core::duration;

use crate::tls::Security;

const PORT: u16 = 2_181;

/// The protocol's longest timeout, which servers reduce to their `maxSessionTimeout`.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

pub(crate) const PREFIX: &str = "/lockwright";

pub(crate) const FORM: &str = "zookeeper:[user:password@]host[:port],host[:port],…[/chroot][?prefix=/lockwright&tick=2s], \
     or with TLS zookeeper+tls:[user:password@]host:port,…[/chroot]?ca=FILE[&cert=FILE&key=FILE]";

pub(crate) const PARAMETERS: [&str; 5] = ["prefix", "tick", "ca", "cert", "key"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) hosts: Vec<String>,
    /// `user:password`, decoded.
    pub(crate) login: Option<String>,
    pub(crate) chroot: String,
    pub(crate) prefix: String,
    pub(crate) tick: Option<Duration>,
    pub(crate) tls: Option<Security>,
}

/// Parses a URL. Errors contain no secret.
pub(crate) fn read(url: &str) -> Result<Contents, String> {
    let url = url.trim();
    let (secured, rest) = match url.split_once(':') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("zookeeper") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("zookeeper+tls") => (true, rest),
        _ => return Err("there is no ZooKeeper URL".to_owned()),
    };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    if rest.contains('#') {
        return Err("there is a #, which is %23 in a URL".to_owned());
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, chroot) = match place.find('/') {
        Some(slash) => place.split_at(slash),
        None => (place, ""),
    };
    if chroot.contains('@') || query.contains('@') {
        return Err("a special character in the password isn't percent-encoded (/ is %2F, ? is \
                    %3F)"
            .to_owned());
    }
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let login = login.map(self::login).transpose()?;
    let hosts = self::hosts(hosts, login.is_some(), secured)?;
    let chroot = path("chroot", chroot.trim_end_matches('/'))?;
    let mut parameters = Parameters::parse(query, &PARAMETERS)?;
    let prefix = self::prefix(parameters.take("prefix").as_deref().unwrap_or(PREFIX))?;
    let tick = |text: String| {
        let tick = duration::parse(&text).ok().filter(|tick| is_tick(*tick));
        tick.ok_or_else(|| format!("tick={text} is not a time, like 2s"))
    };
    let tick = parameters.take("tick").map(tick).transpose()?;
    let tls = Security::take(|name| parameters.take(name), secured)?;
    Ok(Contents { hosts, login, chroot, prefix, tick, tls })
}

pub(crate) fn is_tick(tick: Duration) -> bool {
    (Duration::from_millis(1)..=MAX_TIMEOUT).contains(&tick)
}

fn login(login: &str) -> Result<String, String> {
    let (user, password) = url::login(login)?;
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    // The servers would end the user name at the colon.
    if user.contains(':') {
        return Err("the user has a colon".to_owned());
    }
    Ok(format!("{user}:{password}"))
}

fn hosts(text: &str, has_login: bool, secured: bool) -> Result<Vec<String>, String> {
    // TLS has no default port.
    let default_port = (!secured).then_some(PORT);
    let hosts = url::hosts(text, default_port, has_login)?;
    Ok(hosts.into_iter().map(|(name, port)| format!("{name}:{port}")).collect())
}

fn path(what: &str, text: &str) -> Result<String, String> {
    let is_odd =
        |c: char| c.is_control() || ('\u{e000}'..='\u{f8ff}').contains(&c) || c >= '\u{fff0}';
    let path = percent::decode(text).ok_or(format!("the {what}'s percent-encoding is broken"))?;
    let bad =
        |part: &str| part.is_empty() || part == "." || part == ".." || part.chars().any(is_odd);
    if !path.is_empty() && (!path.starts_with('/') || path[1..].split('/').any(bad)) {
        return Err(format!("the {what} {path:?} isn't a node path such as /a/b"));
    }
    Ok(path)
}

pub(crate) fn prefix(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() {
        return if text.is_empty() {
            Err("the prefix is empty; for locks at the root say prefix=/".to_owned())
        } else {
            Ok("/".to_owned())
        };
    }
    path("prefix", trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_read() {
        let read =
            read("ZooKeeper:me:p%40ss%3Aword@a,b:2182,[::1]:2183/up/here?prefix=/locks&tick=2s");
        assert_eq!(
            read.unwrap(),
            Contents {
                hosts: ["a:2181", "b:2182", "[::1]:2183"].map(str::to_owned).to_vec(),
                login: Some("me:p@ss:word".to_owned()),
                chroot: "/up/here".to_owned(),
                prefix: "/locks".to_owned(),
                tick: Some(Duration::from_secs(2)),
                tls: None,
            }
        );
        let plain = super::read(" zookeeper://a/ ").unwrap();
        assert_eq!((&*plain.chroot, &*plain.prefix, plain.login), ("", PREFIX, None));
        assert_eq!(super::read("zookeeper:a?prefix=/").unwrap().prefix, "/");
    }
}
