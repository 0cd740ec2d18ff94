//! Property tests: no URL causes a panic, and errors are clear.

use lockwright_properties::{assert_clear, texts, urls_with_secrets};

use crate::config::Config;

#[test]
fn urls() {
    let valid = [
        "redlock:redis://a:1,redis://b:2,redis://c:3?node_timeout=50ms&prefix=x",
        "redlock:redis://me:x@a/1,redis+unix:///b,rediss://c?largest_ttl=1h",
    ];
    texts(&valid, |url| match Config::new(url) {
        Ok(config) => assert!(!format!("{config:?}").is_empty()),
        Err(error) => assert!(error.to_string().len() > 20, "{error}"),
    });
}

#[test]
fn no_password_is_shown() {
    let before = ["redlock:redis://me:", "redlock:redis://a:1,redis://:"];
    let after = ["a:1,redis://b:2,redis://c:3", "c?node_timeout=50ms"];
    urls_with_secrets(&before, &after, |url| match Config::new(url) {
        Ok(config) => assert_clear(format!("{config:?}")),
        Err(error) => {
            assert_clear(&error);
            assert_clear(format!("{error:?}"));
        }
    });
}
