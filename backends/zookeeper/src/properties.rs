use lockwright_conformance::test_helpers;
use lockwright_core::{LockName, Mode};
use lockwright_properties::{bytes, check, text, texts};

use crate::config::Config;
use crate::paths::{self, Paths};
use crate::queue;
use crate::value::Value;

#[test]
fn urls() {
    let valid = [
        "zookeeper:me:x@a:2181,b:2181,[::1]:2181/chroot?prefix=/locks&tick=2s",
        "zookeeper://127.0.0.1:2181",
        "zookeeper+tls:a:2281?ca=/etc/ca.pem",
    ];
    lockwright_properties::urls(&valid, Config::new);
}

#[test]
fn no_password_is_shown() {
    let before = ["zookeeper:me:", "zookeeper://me:", "zookeeper+tls://me:"];
    let after = ["db:2181", "a:1,b:2/chroot?prefix=/x", "[::1]:3?x=1"];
    lockwright_properties::no_password_is_shown(&before, &after, Config::new);
}

#[test]
fn data_of_nodes() {
    let valid: [&[u8]; 2] = [
        br#"{"token":"0123456789abcdef0123456789abcdef","identity":{"host":"a","pid":7},"ttl_ms":9}"#,
        br#"{"token":"0123456789abcdef0123456789abcdef","identity":{"host":"a","pid":7,"label":"x"},
            "ttl_ms":18446744073709551615,"broken":"me: x","taken":7}"#,
    ];
    bytes(&valid, |data| {
        let Some(value) = Value::read(data) else { return };
        assert!(!value.ttl().is_zero());
        let again = Value::read(&value.bytes()).unwrap();
        assert_eq!(again.bytes(), value.bytes());
    });
}

#[test]
fn names_of_nodes() {
    let uuid = "_c_01234567-89ab-cdef-0123-456789abcdef";
    let ours = format!("{uuid}-p2of3-lock-0000000007");
    let reader = format!("{uuid}-r-lock--2147483648");
    let valid = [
        &*ours,
        &*reader,
        "_c_x-lock-0000000001",
        "0123__lock__0000000002",
        "0123__READ__2147483647",
    ];
    check(
        |input| {
            let mut children = Vec::new();
            for _ in 0..input.int_in_range(0..=4)? {
                children.push(text(input, &valid)?);
            }
            Ok(children)
        },
        |children| {
            let queue = queue::queue(children.clone());
            assert!(queue.len() <= children.len());
            assert_eq!(queue::modes(&queue).len(), queue.len());
            for at in 0..queue.len() {
                let _ = queue::can_be_admitted(&queue, at);
            }
        },
    );
}

#[test]
fn every_name_is_one_node_that_leads_back_to_it() {
    let paths = Paths::new("/lockwright");
    let names = ["a/b", "a/", "//", ".", "..", "%", "zookeeper", "a%2Fb", "\u{e000}", "Zürich 🔒"];
    texts(&names, |text| {
        let Ok(name) = LockName::new(text) else { return };
        let path = paths.queue(&name);
        let child = path.strip_prefix("/lockwright/").unwrap();
        assert!(!child.contains('/') && child != "." && child != "..", "{child}");
        let fits = |c: char| c < '\u{e000}' || ('\u{f900}'..'\u{fff0}').contains(&c);
        assert!(child.chars().all(fits), "{child}");
        assert_eq!(Paths::name_of(child), Some(name));
    });
}

#[test]
fn children_of_others() {
    for never in ["%nobody", "%probe-0000000001", "zookeeper", "%61", "%zz"] {
        assert_eq!(Paths::name_of(never), None, "{never}");
    }
    texts(&["orders%2F42", "%2E%2E", "plain", "%nobody"], |child| {
        if let Some(name) = Paths::name_of(child) {
            assert_eq!(Paths::new("").queue(&name), format!("/{child}"));
        }
    });
}

#[test]
fn every_claim_is_found_in_its_queue() {
    check(
        |input| {
            Ok((
                input.arbitrary::<u32>()?,
                input.arbitrary::<u32>()?,
                input.int_in_range(0..=i32::MAX)?,
            ))
        },
        |&(count, of, sequence)| {
            let mut claim = test_helpers::claim("a");
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { count, of }] {
                claim.mode = mode;
                let queue = queue::queue(vec![format!("{}{sequence:010}", paths::node(&claim))]);
                assert!(queue[0].is_of(claim.token));
                if !matches!(mode, Mode::Permits { .. } if count == 0 || count > of) {
                    assert_eq!(queue[0].mode, mode);
                }
            }
        },
    );
}
