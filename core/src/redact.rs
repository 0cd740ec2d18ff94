//! Removal of secrets from URLs.

use std::borrow::Cow;

/// Masks passwords and secret query parameters with `***`. The text may contain several URLs, or an
/// invalid one.
///
/// ```
/// use lockwright_core::redact::url;
///
/// assert_eq!(url("redis://me:hush@db:6379/0"), "redis://me:***@db:6379/0");
/// assert_eq!(url("redis://db/?password=hush&x=1"), "redis://db/?password=***&x=1");
/// ```
pub fn url(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = next_url(rest) {
        out.push_str(&one_url(&rest[..next]));
        out.push(',');
        rest = &rest[next + 1..];
    }
    out.push_str(&one_url(rest));
    out
}

/// Returns advice if a URL has an `@` after a `?`: the password may contain an unescaped `?`.
/// Errors must then not quote parameters: they may be the password's rest.
pub fn hidden_password(url: &str) -> Option<&'static str> {
    let (_, query) = url.split_once('?')?;
    query.contains('@').then_some(
        "there is an @ after a ?; write %3F for a ? in the password, and %40 for an @ in a parameter",
    )
}

/// Returns the URL with `***` for passwords, for parameters that are not in `known`, and for logins
/// without a colon, which may be passwords.
pub fn shown(url: &str, known: &[&str]) -> String {
    let shown = self::url(&without_hidden_password(url));
    let (place, query) = match shown.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (&*shown, None),
    };
    let mut text = String::new();
    let mut rest = place;
    while let Some(next) = next_url(rest) {
        text += &without_lone_login(&rest[..next]);
        text.push(',');
        rest = &rest[next + 1..];
    }
    text += &without_lone_login(rest);
    for (at, parameter) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        let name = parameter.split('=').next().unwrap_or_default();
        text.push_str(if known.contains(&name) { parameter } else { "***" });
    }
    text
}

/// Replaces the text between the scheme and the last `@` if the URL has a [hidden
/// password](hidden_password).
fn without_hidden_password(url: &str) -> Cow<'_, str> {
    let start = after_scheme(url);
    match url.rfind('@').filter(|at| *at >= start && hidden_password(url).is_some()) {
        Some(at) => format!("{}***:***{}", &url[..start], &url[at..]).into(),
        None => url.into(),
    }
}

fn without_lone_login(url: &str) -> String {
    let start = url.find("//").map_or(0, |at| at + 2);
    match url[start..].rfind('@') {
        Some(at) if !url[start..start + at].contains(':') => {
            format!("{}***{}", &url[..start], &url[start + at..])
        }
        _ => url.to_owned(),
    }
}

/// Returns the index of the comma before the next URL. A password may contain a comma and `://`, so
/// a comma counts only after a whole URL: one with an `@`, or without a secret.
fn next_url(text: &str) -> Option<usize> {
    text.match_indices(',').map(|(at, _)| at).find(|at| {
        let (before, after) = (&text[..*at], &text[at + 1..]);
        let is_scheme = |end| !after[..end].is_empty() && after[..end].chars().all(of_scheme);
        after.find("://").is_some_and(is_scheme)
            && (before.contains('@') || one_url(before) == before)
    })
}

fn of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+-.".contains(c)
}

/// Returns the index after `scheme://`, `redlock:scheme://` or `etcd:scheme://`; otherwise 0,
/// because any other `//` may be part of a password.
fn after_scheme(url: &str) -> usize {
    let is_outer =
        |scheme: &&str| url.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    let outer = ["redlock:", "etcd:"].into_iter().find(is_outer).map_or(0, str::len);
    let inner = &url[outer..];
    match inner.split_once("//") {
        Some(("", rest)) => url.len() - rest.len(),
        Some((scheme, rest)) => match scheme.strip_suffix(':') {
            Some(scheme) if scheme.chars().all(of_scheme) => url.len() - rest.len(),
            _ => 0,
        },
        None => 0,
    }
}

fn one_url(text: &str) -> String {
    // Parameters are redacted first: an `@` in one would count as the end of a password.
    let text = &parameters_redacted(text);
    // The password ends at the last `@`, because it may contain an unescaped `@`, `/` or `?`.
    let start = after_scheme(text);
    match text[start..].rfind('@').map(|at| start + at) {
        Some(at) => match text[start..at].find(':') {
            Some(colon) => format!("{}:***{}", &text[..start + colon], &text[at..]),
            None => text.clone(),
        },
        None => {
            let start = if start > 0 { start } else { text.find(':').map_or(0, |at| at + 1) };
            format!("{}{}", &text[..start], without_odd_port(&text[start..]))
        }
    }
}

fn parameters_redacted(text: &str) -> String {
    let Some(first) = text.find('?') else { return text.to_owned() };
    let (before, mut rest) = text.split_at(first);
    let mut out = before.to_owned();
    while let Some(mark) = rest.chars().next() {
        let parameter = &rest[mark.len_utf8()..];
        out.push(mark);
        // A secret may contain a `?`, so only a `&` ends it.
        let secret = secret_name(parameter);
        let end = match secret {
            Some(_) => parameter.find('&'),
            None => parameter.find(['?', '&']),
        };
        let end = end.unwrap_or(parameter.len());
        match secret {
            Some(name) => out.extend([name, "=***"]),
            None => out.push_str(&parameter[..end]),
        }
        rest = &parameter[end..];
    }
    out
}

/// If a port isn't a number, masks the text from there on: it may be a password without its `@`.
fn without_odd_port(text: &str) -> String {
    let hosts = &text[..text.find(['/', '?', '#']).unwrap_or(text.len())];
    let mut at = 0;
    for host in hosts.split(',') {
        match host.rsplit_once(':') {
            Some((name, port))
                if !host.ends_with(']') && !port.chars().all(|c| c.is_ascii_digit()) =>
            {
                return format!("{}{name}:***", &text[..at]);
            }
            _ => at += host.len() + 1,
        }
    }
    text.to_owned()
}

fn secret_name(parameter: &str) -> Option<&str> {
    const SECRETS: [&str; 5] = ["pass", "secret", "token", "key", "auth"];
    let (name, _) = parameter.split_once('=')?;
    let is_secret = |name: &str| SECRETS.iter().any(|secret| name.contains(secret));
    (!name.contains(['?', '&']) && is_secret(&name.to_ascii_lowercase())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn no_secret_survives() {
        for text in [
            "redis://:hush@db",
            "redis://me:hush@db/0?x=1",
            "redis://me:hu@sh@db",
            "redis://me:hush/hush@db",
            "redis://me:hu,sh@db",
            "redis://me:hu?sh@db",
            "postgres://db/x?sslpassword=hush",
            "redlock:redis://a:hush@a:1,redis://b:hush@b:1",
            "etcd:http://me:hush",
            "ETCD:http://me:hush",
            " redis://me:hush",
            "etcd:http://me:hush@a,http://b:hush@b",
            "me:hush@db",
            "redis://:hush/x",
            "redis://me:hush",
            "redis://me:hush?x=1",
            "redis+sentinel://me:hush@a:1,b:2/master/0?sentinel_user=x&sentinel_password=hush",
            "rediss+sentinel://a:1,b:2/master?sentinel_password=hu@sh&prefix=x",
            "redis+sentinel://me:hu,sh@a:1,b:2/master",
            "redis+sentinel://a:1,b:hush/master",
            "redis+sentinel://:hush,b:1/master",
            "redis+cluster://me:hu@sh@a,b:2,[::1]:3",
            "rediss://db/?ca=/x&cert=/y&key=/hush",
            "rediss://me:hu?key=sh@db",
            "zookeeper:me:hush!hush@db:2b:2/chroot?fix=//x1",
            "zookeeper:me:hush//hush@db",
            "zookeeper:me:hush://hush@db",
            "redlock:redis://me:hush//hush@a:1",
            "redis://me:hush,x://hush@db",
            "redis://me:hush,://hush@db",
            "postgres://me@db/x?password=xx?hush&a=b?c",
            "redis+sentinel://a:1,b:2/master?sentinel_password=hu?sh&prefix=x",
            "zookeeper:me:hush",
            "zookeeper:a:1,me:hush/x",
            "zookeeper:me:xx,hush",
            "zookeeper:me:xx/hush?hush",
            "zokeeper:me:hush",
            "etcd:me:hush",
            "redlock:redis:me:hush",
        ] {
            let shown = url(text);
            assert!(!shown.contains("hu"), "{shown}");
        }
        assert_eq!(url("sqlite:/var/lib/locks.db"), "sqlite:/var/lib/locks.db");
        for plain in [
            "redis://127.0.0.1:6379",
            "redis://db/1",
            "redis://[::1]/",
            "sqlite:///a:b",
            "sqlite:/var/a:b",
            "memory:a",
            "zookeeper:a:1,[::1]:2,[::2]/locks",
            "redis+sentinel://a:1,b:2,[::1]:3,[::2]/master/1?sentinel_user=x",
            "rediss+cluster://a:1,b?ca=/etc/ca.pem&prefix=a:",
        ] {
            assert_eq!(url(plain), plain);
        }
    }
}
