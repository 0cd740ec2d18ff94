use lockwright_core::{BootInstant, Fence, Mode, Token};

use lockwright_conformance::history::{History, Hold, Violation};

fn hold(who: &str, fence: u64, asked: u64, granted: u64, until: u64) -> Hold {
    let mut token = [0; 16];
    token[..who.len()].copy_from_slice(who.as_bytes());
    Hold {
        who: who.to_owned(),
        name: "x".to_owned(),
        mode: Mode::Exclusive,
        token: Token::from_bytes(token),
        fence: Fence::new(fence),
        asked: BootInstant::from_nanos(asked),
        granted: BootInstant::from_nanos(granted),
        until: BootInstant::from_nanos(until),
    }
}

fn history(holds: &[Hold]) -> History {
    let history = History::default();
    holds.iter().rev().for_each(|hold| history.add(hold.clone()));
    history
}

#[test]
fn a_right_history_is_right() {
    let history =
        history(&[hold("a", 1, 0, 10, 20), hold("b", 2, 5, 20, 30), hold("c", 9, 31, 40, 50)]);
    assert_eq!(history.check(true), []);
    assert_eq!(history.contended(), 1);
}

#[test]
fn an_overlap_of_a_nanosecond_is_one() {
    let history = history(&[hold("a", 1, 0, 10, 21), hold("b", 2, 5, 20, 30)]);
    assert!(matches!(history.check(true)[..], [Violation::Overlap(..)]));
}

#[test]
fn an_overlap_with_one_long_before_is_seen() {
    let history =
        history(&[hold("a", 1, 0, 10, 100), hold("b", 2, 11, 20, 30), hold("c", 3, 31, 40, 50)]);
    assert_eq!(history.check(true).len(), 2);
}

#[test]
fn other_names_are_other_histories() {
    let mut other = hold("b", 1, 5, 15, 30);
    other.name = "y".to_owned();
    assert_eq!(history(&[hold("a", 1, 0, 10, 21), other]).check(true), []);
}

#[test]
fn a_fence_that_falls_or_comes_twice_is_seen() {
    let fell = history(&[hold("a", 7, 0, 10, 20), hold("b", 6, 21, 22, 30)]);
    assert!(matches!(fell.check(true)[..], [Violation::FenceFell(..)]));
    assert_eq!(fell.check(false), []);
    let same = history(&[hold("a", 7, 0, 10, 20), hold("b", 7, 5, 22, 30)]);
    assert!(matches!(same.check(true)[..], [Violation::SameFence(..)]));
}

#[test]
fn one_that_was_asked_for_before_may_have_the_smaller_fence() {
    let history = history(&[hold("a", 7, 0, 10, 20), hold("b", 6, 9, 22, 30)]);
    assert_eq!(history.check(true), []);
}
