use std::borrow::Cow;

use lockwright_core::backend_util::percent;
use lockwright_core::{Error, Result};

use crate::Config;
use crate::connect::scheme_of;

impl Config {
    /// Returns the URL with the password of `password_file` or `password_env`. Don't log
    /// it.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) if both settings are set, the password is
    /// missing or empty, or the URL takes none.
    pub fn full_url(&self) -> Result<Cow<'_, str>> {
        let (setting, password) = match (&self.password_file, &self.password_env) {
            (None, None) => return Ok(Cow::Borrowed(&self.url)),
            (Some(_), Some(_)) => {
                return Err(Error::invalid_config(
                    "password_file and password_env are both set; remove one",
                ));
            }
            (Some(file), None) => (
                format!("password_file = {file:?}"),
                std::fs::read_to_string(file).map_err(|error| error.to_string()),
            ),
            (None, Some(name)) => (
                // The value isn't quoted: by mistake, it may be the password.
                "password_env".to_owned(),
                std::env::var_os(name)
                    .ok_or("the variable that it names isn't set")
                    .and_then(|text| {
                        text.into_string().map_err(|_| "the variable that it names isn't UTF-8")
                    })
                    .map_err(str::to_owned),
            ),
        };
        let password = password.and_then(|text| match text.trim_end_matches(['\r', '\n']) {
            "" => Err("the password is empty".to_owned()),
            password => with_password(&self.url, password),
        });
        password.map(Cow::Owned).map_err(|problem| {
            Error::invalid_config(format!("{setting}: {problem}; correct or remove the setting"))
        })
    }
}

/// Adds the password to each server's URL that has none.
fn with_password(url: &str, password: &str) -> std::result::Result<String, String> {
    let (scheme, _) = scheme_of(url);
    let password = format!(":{}@", percent::encode(password, |c| !c.is_ascii_alphanumeric()));
    let Some((outer, mut rest)) = url.split_once(':') else { return Ok(url.to_owned()) };
    let is_list = match &*scheme {
        "memory" | "sqlite" | "redis+unix" | "valkey+unix" => {
            return Err(format!("{scheme}: URLs take no password from a setting"));
        }
        "redlock" | "etcd" => true,
        _ => false,
    };
    // etcd's users are the cluster's, so one member's login suffices, and a user is required.
    if scheme == "etcd" && !rest.contains('@') {
        return Err("the URL has no user; write etcd:http://USER@HOST".to_owned());
    }
    let mut full = format!("{outer}:");
    loop {
        let start = match (is_list, rest.find("://")) {
            (true, Some(at)) => at + 3,
            (true, None) => break,
            (false, _) => {
                if rest.starts_with("//") {
                    2
                } else {
                    0
                }
            }
        };
        full += &rest[..start];
        rest = &rest[start..];
        let (server, after) = rest.split_at(end_of_server(rest));
        match server.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => full += server,
            Some((user, hosts)) => full.extend([user, &password, hosts]),
            None if scheme == "etcd" => full += server,
            None => full.extend([&password, server]),
        }
        rest = after;
        if !is_list {
            break;
        }
    }
    Ok(full + rest)
}

/// Returns the end of `[login@]host[:port],…`, before a path, parameters or the next URL of a list.
fn end_of_server(text: &str) -> usize {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    match text[..end].rfind(',') {
        Some(comma) if text[end..].starts_with("//") && text[..end].ends_with(':') => comma,
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_added_to_each_server_without_one() {
        for (url, full) in [
            ("redis://h/0", "redis://:P@h/0"),
            ("rediss://me@h:1?ca=/x", "rediss://me:P@h:1?ca=/x"),
            ("postgres://me@[::1]:1/db", "postgres://me:P@[::1]:1/db"),
            ("mysql://me:own@h/db", "mysql://me:own@h/db"),
            ("redis+sentinel://me@a:1,b:2/main", "redis+sentinel://me:P@a:1,b:2/main"),
            ("redis+cluster://a,b", "redis+cluster://:P@a,b"),
            ("zookeeper:me@a:1,b:2/x", "zookeeper:me:P@a:1,b:2/x"),
            ("zookeeper+tls://me@a:1?ca=/x", "zookeeper+tls://me:P@a:1?ca=/x"),
            (
                "Redlock:redis://me@a:1,redis://b/1,rediss://you:o,wn@c?prefix=x",
                "Redlock:redis://me:P@a:1,redis://:P@b/1,rediss://you:o,wn@c?prefix=x",
            ),
            ("redlock:redis://me:o,wn@a,redis://b", "redlock:redis://me:o,wn@a,redis://:P@b"),
            ("etcd:http://me@a:1,http://b?prefix=x", "etcd:http://me:P@a:1,http://b?prefix=x"),
            ("nonsense", "nonsense"),
        ] {
            let full = full.replace('P', "p%2F%40%3A%C3%A9%25");
            assert_eq!(with_password(url, "p/@:é%").unwrap(), full);
        }
    }

    #[test]
    fn backend_without_passwords_is_refused() {
        for url in ["memory:", "SQLITE:x", "redis+unix:///x", "etcd:http://a,http://b"] {
            let problem = with_password(url, "hush").unwrap_err();
            assert!(problem.contains("no password") || problem.contains("no user"), "{problem}");
            assert!(!problem.contains("hush"), "{problem}");
        }
    }
}
