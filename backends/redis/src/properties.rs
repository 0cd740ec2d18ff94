//! Property tests: no input from a URL or a server causes a panic.

use std::sync::Arc;

use lockwright_conformance::test_helpers;
use lockwright_core::{Identity, LockName};
use lockwright_properties::{assert_clear, check, text, texts};
use redis::Value;

use crate::answer;
use crate::cluster::map::{Address, SlotMap};
use crate::config::Config;
use crate::keys::{Keys, lock_of_fence, slot_of};
use crate::offers::Offers;
use crate::wakeup::broken_hold;

const NAMES: [&str; 8] = ["orders/42", "a", "{a}b", "a{b}c}", "Zürich 🔒", "}{", "{}a", "a}b"];

#[test]
fn urls() {
    let valid = [
        "redis://me:x@127.0.0.1:6379/2?prefix=shop:",
        "redis+unix:///run/redis.sock?db=1",
        "rediss+sentinel://me:x@a:1,b:2,[::1]:3/master/0?sentinel_user=x&ca=/etc/ca.pem",
        "valkey+cluster://a,b:2?replicas=1&replica_timeout=100ms",
    ];
    lockwright_properties::urls(&valid, Config::new);
}

#[test]
fn no_password_is_shown() {
    let before = ["redis://me:", "redis://:", "rediss+sentinel://me:", "redis+cluster://me:"];
    let after = ["db:6379/0?prefix=x", "a:1,b:2/master?sentinel_user=x", "[::1]:3"];
    lockwright_properties::no_password_is_shown(&before, &after, Config::new);
}

#[test]
fn a_password_with_a_question_mark() {
    for url in ["redis://hush?hush@a:1,b:2/_ter?sentuser=x", "redis://me:hush?hush@db?x=1"] {
        assert_clear(format!("{:?}", Config::new(url).unwrap_err()));
    }
}

#[test]
fn answers_about_a_lock() {
    let valid = "lock|free|alien|7|3|-1|30000|0123456789abcdef0123456789abcdef|job@host:7|\
                 host:7\u{1f}value|x|s|2/3|me: why|18446744073709551615";
    let valid: Vec<&str> = valid.split('|').collect();
    let name = test_helpers::name("a");
    check(
        |input| {
            let mut words = Vec::new();
            for _ in 0..input.int_in_range(0..=16)? {
                words.push(match input.int_in_range(0..=9)? {
                    0 => Value::Nil,
                    1 => Value::Int(input.arbitrary()?),
                    2 => Value::Array(vec![Value::Nil]),
                    _ => Value::BulkString(text(input, &valid)?.into_bytes()),
                });
            }
            Ok(Value::Array(words))
        },
        |words| match answer::found(&name, words.clone()) {
            Ok(Ok(found)) => assert!(!format!("{found:?}").is_empty()),
            Ok(Err(what)) => assert_clear(what),
            Err(error) => assert_clear(error),
        },
    );
}

#[test]
fn maps_of_a_cluster() {
    let asked = any_address();
    check(
        |input| {
            let mut ranges = Vec::new();
            for _ in 0..input.int_in_range(1..=4)? {
                let slots = [input.int_in_range(-1..=16_384)?, input.int_in_range(-1..=16_384)?];
                let host =
                    Value::BulkString(text(input, &["127.0.0.1", "", "?", "[::1]"])?.into_bytes());
                let node = Value::Array(vec![host, Value::Int(input.int_in_range(-1..=65_536)?)]);
                let [first, last] = slots.map(Value::Int);
                let whole = vec![first, last, node];
                let length = input.int_in_range(1..=3)?;
                ranges.push(Value::Array(whole.into_iter().take(length).collect()));
            }
            Ok(Value::Array(ranges))
        },
        |answer| {
            let Some(map) = SlotMap::read(answer.clone(), &asked) else { return };
            for slot in [0, 1, 8_191, 16_383, u16::MAX] {
                assert!(map.owner(slot).is_none_or(|owner| map.masters().contains(owner)));
            }
            assert!(map.uncovered() <= 16_384);
        },
    );
}

fn any_address() -> Address {
    Address { host: "here".to_owned(), port: 1 }
}

#[test]
fn redirections() {
    texts(&["10.0.0.1:7000", "[::1]:7000", ":7000", "?:1"], |named| {
        if let Some(address) = Address::redirected(named, &any_address()) {
            let printed = address.to_string();
            assert_eq!(Address::redirected(&printed, &any_address()), Some(address), "{printed}");
        }
    });
}

#[test]
fn every_name_has_keys_that_lead_back_to_it() {
    texts(&NAMES, |text| {
        let Ok(name) = LockName::new(text) else { return };
        let Ok(keys) = Keys::new("", &name) else { return };
        assert_eq!(lock_of_fence(keys.fence()), Some(text));
        for key in keys.described() {
            assert_eq!(slot_of(key), slot_of(keys.lock()));
        }
    });
}

#[test]
fn keys_of_others() {
    let valid =
        ["lockwright:{a}:fence", "lockwright:{b}:fence:a{b}c", "lockwright:{20658}:fence:a}b"];
    texts(&valid, |key| {
        if let Some(lock) = lock_of_fence(key) {
            assert!(key.contains(lock));
        }
    });
    for other in ["lockwright:{a}:fences", "lockwright:{a", "lockwright:{a}:holders", "x", ""] {
        assert_eq!(lock_of_fence(other), None, "{other}");
    }
}

#[test]
fn messages() {
    let offers = Offers::default();
    let claim = test_helpers::claim("a");
    let offer = format!("{} 7 1 15000000 2000", claim.token);
    let behind = format!("behind {} 2000", claim.token);
    let huge = format!("behind {} 18446744073709551615", claim.token);
    let late = format!("{} 7 1 18446744073709551615 18446744073709551615", claim.token);
    texts(&[&offer, &behind, &huge, &late, "now nothing", "doctor"], |message| {
        let _ = broken_hold(message);
        offers.waits(&claim, offers.clock.now(), 5_000_000, message.len() % 2 == 0);
        let _ = offers.receive(message);
        let _ = offers.receive_behind(message);
        offers.forget(claim.token);
    });
}

#[test]
fn identities() {
    let valid = ["billing", "a@b:c", "", "http://[::1]:80/?a@b", "🔒"];
    let has_control = |text: &str| text.contains(char::is_control);
    lockwright_properties::pairs(&valid, |label, value| {
        if has_control(label) || has_control(value) {
            return;
        }
        let mut identity = Identity::of_this_process(Some(label));
        identity.value = Some(Arc::from(value));
        let words = ["1", "x", &answer::identity_text(&identity), "1", "", "x"];
        let words = words.map(|word| Value::BulkString(word.as_bytes().to_vec()));
        let words = answer::Reply::of(Value::Array(words.to_vec()), crate::errors::Effect::Reads);
        assert_eq!(answer::shared_holder(&words.unwrap(), 0).identity, Some(identity));
    });
}
