//! Keeping secrets out of errors, logs and `Debug`.

/// The URL with the password between `:` and `@`, and the value of every query parameter whose
/// name speaks of a secret, replaced by `***`. Works on text that isn't a valid URL too, because
/// that is what error messages quote; several URLs in one text are all redacted.
///
/// ```
/// use lockwright_core::redact::url;
///
/// assert_eq!(url("redis://me:hush@db:6379/0"), "redis://me:***@db:6379/0");
/// assert_eq!(url("redis://db/?password=hush&x=1"), "redis://db/?password=***&x=1");
/// ```
pub fn url(text: &str) -> String {
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

/// Where the comma stands that another URL follows: not any comma, as a password may hold one.
fn next_url(text: &str) -> Option<usize> {
    text.match_indices(',').map(|(at, _)| at).find(|at| {
        let after = &text[at + 1..];
        after.find("://").is_some_and(|end| {
            after[..end].chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    })
}

fn one_url(text: &str) -> String {
    // The authority first and up to the last '@': a password may hold '@', '/' or '?' that
    // somebody forgot to escape, so nothing before that can be trusted to be its end.
    let start = text.find("//").map_or(0, |i| i + 2);
    let (head, tail) = match text[start..].rfind('@').map(|at| start + at) {
        Some(at) => match text[start..at].find(':') {
            Some(colon) => (format!("{}:***", &text[..start + colon]), &text[at..]),
            None => (text[..at].to_owned(), &text[at..]),
        },
        // Somebody may have forgotten the '@' and the host: what stands in a port's place and isn't
        // one may be a password.
        None => match port_like(&text[start..]).filter(|_| start > 0) {
            Some((from, to)) => (format!("{}***", &text[..start + from]), &text[start + to..]),
            None => (String::new(), text),
        },
    };
    match tail.split_once('?') {
        Some((before, query)) => {
            let parameters: Vec<String> = query.split('&').map(redact_parameter).collect();
            format!("{head}{before}?{}", parameters.join("&"))
        }
        None => format!("{head}{tail}"),
    }
}

/// Where in what follows `//` something stands like a port, but isn't a number.
fn port_like(text: &str) -> Option<(usize, usize)> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let colon = text[..end].rfind(':')?;
    let port = &text[colon + 1..end];
    let is_port = port.chars().all(|c| c.is_ascii_digit()) || port.ends_with(']');
    (!is_port).then_some((colon + 1, end))
}

fn redact_parameter(parameter: &str) -> String {
    const SECRETS: [&str; 5] = ["pass", "secret", "token", "key", "auth"];
    match parameter.split_once('=') {
        Some((name, _)) if SECRETS.iter().any(|s| name.to_ascii_lowercase().contains(s)) => {
            format!("{name}=***")
        }
        _ => parameter.to_owned(),
    }
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
            "me:hush@db",
            "redis://:hush/x",
            "redis://me:hush",
            "redis://me:hush?x=1",
        ] {
            let shown = url(text);
            assert!(!shown.contains("hu"), "{shown}");
        }
        assert_eq!(url("sqlite:/var/lib/locks.db"), "sqlite:/var/lib/locks.db");
        for plain in ["redis://127.0.0.1:6379", "redis://db/1", "redis://[::1]/", "sqlite:///a:b"] {
            assert_eq!(url(plain), plain);
        }
    }
}
