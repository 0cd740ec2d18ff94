use lockwright_conformance::test_helpers;
use lockwright_core::{Claim, LockName, Mode};
use lockwright_properties::{assert_clear, bytes, texts};

use crate::config::Config;
use crate::doctor::revokes_live_leases;
use crate::keys::{self, Keys};
use crate::value::{Tombstone, Value};

fn keys(raw: bool) -> Keys {
    Keys { prefix: "lockwright/".to_owned(), raw }
}

#[test]
fn urls() {
    let valid = [
        "etcd:http://me:x@a:2379,http://b:2379?prefix=locks/",
        "etcd:https://[::1]:2379?ca=/etc/ca.pem",
        "etcd:http://127.0.0.1:2379?names=raw",
    ];
    lockwright_properties::urls(&valid, Config::new);
}

#[test]
fn no_password_is_shown() {
    let before = ["etcd:http://me:", "etcd:https://a:1,https://me:"];
    let after = ["db:2379", "a:1,http://b:2?prefix=x", "[::1]:3?x=1"];
    lockwright_properties::no_password_is_shown(&before, &after, Config::new);
}

#[test]
fn a_password_with_a_question_mark() {
    let url = "etcd:http://me:hush?hush@a:1,http://b:2?prefix=";
    assert_clear(format!("{:?}", Config::new(url).unwrap_err()));
}

#[test]
fn values() {
    let valid: [&[u8]; 3] = [
        br#"{"token":"0123456789abcdef0123456789abcdef","identity":{"host":"a","pid":7}}"#,
        br#"{"token":"0123456789abcdef0123456789abcdef","fixed":true,"broken":"me: x","moved":true}"#,
        br#"{"broken":"me: why","request":"0123456789abcdef0123456789abcdef"}"#,
    ];
    bytes(&valid, |data| {
        if let Some(value) = Value::read(data) {
            assert_eq!(Value::read(&value.bytes()), Some(value));
        }
        let tombstone = Tombstone::read(data);
        assert_eq!(Tombstone::read(&tombstone.bytes()).bytes(), tombstone.bytes());
    });
}

#[test]
fn keys_of_others() {
    let token = "0123456789abcdef0123456789abcdef";
    let marked = format!("lockwright/a/7587.p2of3.{token}");
    let reader = format!("lockwright/a%2Fb/7587.r.{token}");
    let valid =
        [b"lockwright/a/7587", marked.as_bytes(), reader.as_bytes(), b"lockwright/ended:x/"];
    bytes(&valid, |key| {
        for keys in [keys(false), keys(true)] {
            if let Some(name) = keys.name(key) {
                assert!(key.starts_with(&keys.queue(&name)), "{name}");
            }
        }
        assert!(keys::mode(key) == Mode::Exclusive || key.contains(&b'.'));
    });
}

#[test]
fn every_name_has_a_key_that_contains_it() {
    let names = ["orders/42", "a.r/b", "a/", "/", "//x", "a%2Fb", "50%", "..", "a b", "Zürich 🔒"];
    texts(&names, |text| {
        let Ok(name) = LockName::new(text) else { return };
        let mut claim = Claim { name, ..test_helpers::claim("a") };
        for keys in [keys(false), keys(true)] {
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 2, of: 3 }] {
                claim.mode = mode;
                let lease = text.len() as i64;
                let key = keys.own(&claim, lease);
                assert_eq!(keys.name(&key).as_ref(), Some(&claim.name));
                assert!(keys.is_own(&claim.name, lease, &key));
                assert!(!keys.is_own(&claim.name, lease << 4 | 1, &key));
                let longer = keys.own(&claim, lease << 4 | 1);
                assert!(!keys.is_own(&claim.name, lease, &longer));
                assert!(keys::is_in_queue(&keys.queue(&claim.name), &key));
                assert_eq!(keys::mode(&key), mode);
            }
        }
    });
}

#[test]
fn versions() {
    texts(&["3.5.13", "v3.6.0-rc.1", "3.4.31+git"], |text| {
        let _ = revokes_live_leases(text);
    });
}
