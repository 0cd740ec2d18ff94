//! Tests that parsers don't panic, return clear errors, and accept the printed form of an accepted
//! value.
#![forbid(unsafe_code)]

use lockwright_core::backend_util::{percent, queue_admission};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Fence, LockName, Mode, Token, duration, redact};
use lockwright_properties::{SECRET, assert_clear, pairs, texts, urls_with_secrets};

const NAMES: [&str; 6] = ["orders/42", "a", "Zürich 🔒", "shop/100%", "x y", "{a}b"];

#[test]
fn names() {
    texts(&NAMES, |text| match LockName::new(text) {
        Ok(name) => {
            assert_eq!(name.as_str(), text);
            assert!((1..=LockName::MAX_LEN).contains(&text.len()));
            assert!(!text.contains(char::is_control) && text.trim_matches(' ') == text);
        }
        Err(error) => assert_clear(error),
    });
}

#[test]
fn tokens() {
    assert!("A".repeat(32).parse::<Token>().is_err());
    texts(&["0123456789abcdef0123456789abcdef"], |text| match text.parse::<Token>() {
        Ok(token) => assert_eq!(token.to_string(), text),
        Err(error) => assert_clear(error),
    });
}

#[test]
fn fence_headers() {
    let valid = [
        r#""7";name="orders/42""#,
        r#""9007199254740991"; name="Z%C3%BCrich""#,
        r#""0";name="100%25""#,
    ];
    texts(&valid, |text| match text.parse::<Fenced>() {
        Ok(fenced) => {
            assert!(fenced.fence <= Fence::MAX);
            let printed = fenced.to_string();
            assert!(printed.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{printed}");
            assert_eq!(printed.parse::<Fenced>().unwrap(), fenced);
        }
        Err(error) => assert_clear(error),
    });
}

#[test]
fn every_name_goes_through_a_fence_header() {
    texts(&NAMES, |text| {
        let Ok(name) = LockName::new(text) else { return };
        let fenced = Fenced { name, fence: Fence::new(text.len() as u64) };
        assert_eq!(fenced.to_string().parse::<Fenced>().unwrap(), fenced);
    });
}

#[test]
fn durations() {
    let valid = ["30s", "500ms", "1.5m", "1h", "2d", "0.25", "10min", "99999999999999999999"];
    texts(&valid, |text| match duration::parse(text) {
        Ok(time) => {
            let printed = format!("{:?}s", time.as_secs_f64());
            let again = duration::parse(&printed);
            assert!(
                printed.contains('e')
                    || again.is_ok_and(|again| {
                        again.abs_diff(time).as_secs_f64() <= time.as_secs_f64() * 1e-9
                    }),
                "{printed}"
            );
        }
        Err(error) => assert_clear(error),
    });
}

#[test]
fn percent_encoding() {
    texts(&["a%2Fb", "%E2%82%AC", "5%25", "plain"], |text| {
        let all = |c: char| !c.is_ascii_alphanumeric();
        assert_eq!(percent::decode(&percent::encode(text, all)).as_deref(), Some(text));
        if let Some(decoded) = percent::decode(text) {
            assert_eq!(percent::decode(&percent::encode(&decoded, all)), Some(decoded));
        }
    });
}

#[test]
fn marks_of_a_queue() {
    let valid = ["r", "p2of3", "r.0123456789abcdef0123456789abcdef", "p4294967295of4294967295"];
    texts(&valid, |text| {
        if let Some(mode) = queue_admission::marked(text) {
            assert_eq!(queue_admission::mark(mode).as_deref(), Some(text));
            assert!(mode != Mode::Exclusive);
        }
        if let Some((mode, token)) = queue_admission::signed(text) {
            assert_eq!(format!("{}.{token}", queue_admission::mark(mode).unwrap()), text);
        }
    });
}

#[test]
fn no_password_is_shown() {
    let before = ["redis://me:", "postgres://me:", "redlock:redis://a@b,redis://me:", "://:"];
    let after = ["db:6379/0?x=1", "a:1,b:2/master", "[::1]:5432/x?user=me", "db,redis://b@c"];
    urls_with_secrets(&before, &after, |url| {
        let shown = redact::url(url);
        assert!(!shown.contains(SECRET), "{shown}");
        assert_eq!(redact::url(&shown), shown);
    });
}

#[test]
fn redacting_takes_any_text() {
    let valid = ["redis://me:x@db/?password=y&z=1", "sqlite:/x", "a@b,c://d:e@f"];
    pairs(&valid, |one, other| assert!(!redact::url(&format!("{one},{other}")).is_empty()));
}
