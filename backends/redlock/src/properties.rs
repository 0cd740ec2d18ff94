//! Property tests: no URL causes a panic, and errors are clear.

use crate::config::Config;

#[test]
fn urls() {
    let valid = [
        "redlock:redis://a:1,redis://b:2,redis://c:3?node_timeout=50ms&prefix=x",
        "redlock:redis://me:x@a/1,redis+unix:///b,rediss://c?largest_ttl=1h",
    ];
    lockwright_properties::urls(&valid, Config::new);
}

#[test]
fn no_password_is_shown() {
    let before = ["redlock:redis://me:", "redlock:redis://a:1,redis://:"];
    let after = ["a:1,redis://b:2,redis://c:3", "c?node_timeout=50ms"];
    lockwright_properties::no_password_is_shown(&before, &after, Config::new);
}
