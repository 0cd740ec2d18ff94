use std::time::Duration;

use super::{EXCLUSIVE, Event, Kind, Script, Signal, held};
use lockwright_conformance::history::Rules;

fn found(script: &Script, limit: u64) -> Vec<String> {
    let rules = Rules {
        longest_wait: Some(Duration::from_nanos(limit)),
        excusing_faults: vec!["freeze".to_owned()],
        must_show: false,
        ..Rules::default()
    };
    let found = script.found_by(&rules);
    assert!(found.iter().all(|violation| violation.kind() == Kind::Liveness), "{found:?}");
    found.iter().map(|found| found.title().to_owned()).collect()
}

#[test]
fn request_ends_unless_its_process_does() {
    let open = Script::new().asks(10, "a", 1).holds("b", 2, 1, EXCLUSIVE, (20, 30));
    assert_eq!(found(&open, 100), ["a request never ended"]);
    assert!(found(&open.clone().fails(40, "a", 1), 100).is_empty());
    assert!(found(&open.clone().ends(40, "a"), 100).is_empty());
    assert!(found(&open.clone().signal(40, "a", Signal::Killed), 100).is_empty());
    assert!(found(&open.clone().signal(40, "a", Signal::Stopped), 100).is_empty());
    let stopped = open.signal(40, "a", Signal::Stopped).signal(50, "a", Signal::Continued);
    assert_eq!(found(&stopped, 100), ["a request never ended"]);
}

fn gap() -> Script {
    held(20).asks(15, "b", 2).granted(50, "b", 2, 2, 60)
}

const TOO_LONG: &str = "a client waited for too long without a holder";

#[test]
fn time_without_a_holder_is_bounded_while_a_client_waits() {
    assert!(found(&gap(), 30).is_empty());
    assert_eq!(found(&gap(), 29), [TOO_LONG]);
    let idle = held(20);
    assert!(found(&idle.holds("b", 2, 2, EXCLUSIVE, (50, 60)), 1).is_empty());
}

#[test]
fn try_is_no_wait() {
    let (request, name, mode, waits) = (2, "x".to_owned(), EXCLUSIVE, false);
    let script =
        Script::new().add(10, "b", Event::Asked { request, name, mode, waits, owner: None });
    assert!(found(&script.fails(50, "b", 2), 1).is_empty());
}

#[test]
fn fault_that_forbids_grants_excuses_the_wait() {
    let frozen = |name| gap().fault(30, name, true, None).fault(45, name, false, Some("1"));
    assert!(found(&frozen("freeze"), 10).is_empty());
    assert_eq!(found(&frozen("freeze"), 9), [TOO_LONG]);
    assert_eq!(found(&frozen("delay"), 29), [TOO_LONG]);
    let for_good = gap().fault(30, "freeze", true, None);
    assert!(found(&for_good, 10).is_empty());
}

#[test]
fn stopped_waiter_does_not_wait() {
    let stopped = gap().signal(25, "b", Signal::Stopped).signal(45, "b", Signal::Continued);
    assert!(found(&stopped, 5).is_empty());
    assert_eq!(found(&stopped, 4), [TOO_LONG, TOO_LONG]);
}

#[test]
fn waiters_of_one_name_take_turns() {
    // From 20 to 50, some client always waits, each for 15.
    let script =
        held(20).asks(20, "b", 2).fails(35, "b", 2).asks(35, "c", 3).granted(50, "c", 3, 2, 60);
    assert!(found(&script, 30).is_empty());
    assert_eq!(found(&script, 29), [TOO_LONG]);
}
