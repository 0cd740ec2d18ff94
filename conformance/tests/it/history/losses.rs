use std::time::Duration;

use lockwright_core::Mode;

use super::{EXCLUSIVE, Event, Kind, Script, Signal, at};
use lockwright_conformance::history::Rules;

const LATE: &str = "a loss was reported after the next grant";
const NEVER: &str = "a loss was never reported";

fn found(script: &Script, margin: u64, allowance: u64) -> Vec<String> {
    let rules = Rules {
        loss_margin: Duration::from_nanos(margin),
        loss_allowance: Some(Duration::from_nanos(allowance)),
        must_show: false,
        ..Rules::default()
    };
    let found = script.found_by(&rules);
    assert!(found.iter().all(|violation| violation.kind() == Kind::Safety), "{found:?}");
    found.iter().map(|found| found.title().to_owned()).collect()
}

fn two() -> Script {
    Script::new()
        .holds("a", 1, 1, EXCLUSIVE, (100, 200))
        .holds("b", 2, 2, EXCLUSIVE, (210, 300))
        .releases(220, "b", 2)
}

#[test]
fn loss_is_reported_before_the_next_grant_returns() {
    assert!(found(&two().loses(210, "a", 1), 0, 0).is_empty());
    assert_eq!(found(&two().loses(211, "a", 1), 0, 0), [LATE]);
    // A release before the next grant counts as a report.
    assert!(found(&two().releases(210, "a", 1), 0, 0).is_empty());
    assert_eq!(found(&two().releases(211, "a", 1), 0, 0), [LATE]);
    // Without `loss_allowance`, losses aren't checked.
    assert!(two().loses(211, "a", 1).found().is_empty());
}

#[test]
fn grant_to_the_same_process_or_to_a_reader_of_another_name_is_not_the_next_one() {
    let first = Script::new().holds("a", 1, 1, EXCLUSIVE, (100, 200));
    let own = first.clone().holds("a", 2, 2, EXCLUSIVE, (210, 300));
    assert!(found(&own.releases(220, "a", 2).loses(230, "a", 1), 0, 0).is_empty());
    let other = first.clone().asks_for(205, "b", 2, "y", EXCLUSIVE);
    let other = other.granted(210, "b", 2, 1, 300).releases(220, "b", 2);
    assert!(found(&other.loses(230, "a", 1), 0, 0).is_empty());
    let reader = first.holds("b", 2, 2, Mode::Shared, (210, 300));
    assert_eq!(found(&reader.releases(220, "b", 2).loses(211, "a", 1), 0, 0), [LATE]);
}

#[test]
fn loss_is_reported_at_all() {
    let open = |end| Script::new().holds("a", 1, 1, EXCLUSIVE, (100, 200)).ends(end, "a");
    assert!(found(&open(200), 0, 0).is_empty());
    assert_eq!(found(&open(201), 0, 0), [NEVER]);
    assert!(found(&open(210), 0, 10).is_empty());
    assert_eq!(found(&open(211), 0, 10), [NEVER]);
    assert_eq!(found(&two(), 0, 0), [LATE]);
    let shared = Script::new().holds("a", 1, 1, Mode::Shared, (100, 200)).ends(300, "a");
    assert!(found(&shared, 0, 0).is_empty());
}

#[test]
fn process_that_ran_for_the_allowance_is_excused() {
    let late = two().loses(250, "a", 1);
    assert!(found(&late, 0, 10).is_empty());
    assert_eq!(found(&late, 0, 9), [LATE]);
    // With a margin of 5 ns, the report is due 5 ns earlier.
    assert!(found(&late, 5, 15).is_empty());
    assert_eq!(found(&late, 5, 14), [LATE]);
}

#[test]
fn stopped_delayed_or_killed_process_reports_nothing() {
    let stopped = |go| {
        let script = two().signal(150, "a", Signal::Stopped).signal(go, "a", Signal::Continued);
        script.loses(250, "a", 1)
    };
    assert!(found(&stopped(205), 0, 5).is_empty());
    assert_eq!(found(&stopped(204), 0, 5), [LATE]);
    let delayed =
        |until| two().add(until, "a", Event::Delayed { since: at(150) }).loses(250, "a", 1);
    assert!(found(&delayed(205), 0, 5).is_empty());
    assert_eq!(found(&delayed(204), 0, 5), [LATE]);
    // The delay includes the suspension and lasts longer.
    let both = stopped(190).add(205, "a", Event::Delayed { since: at(140) });
    assert!(found(&both, 0, 5).is_empty());
    assert!(found(&two().signal(200, "a", Signal::Killed), 0, 0).is_empty());
    // A killed client's last entry shows how long it ran.
    let killed = |asked| {
        let script = two().add(asked, "a", Event::Delayed { since: at(asked) });
        found(&script.signal(240, "a", Signal::Killed), 0, 5)
    };
    assert!(killed(205).is_empty());
    assert_eq!(killed(206), [LATE]);
}

#[test]
fn renewed_hold_is_due_at_its_new_deadline() {
    let renewed = Script::new().holds("a", 1, 1, EXCLUSIVE, (100, 200)).renews(190, "a", 1, 290);
    let script = renewed.holds("b", 2, 2, EXCLUSIVE, (300, 400)).releases(310, "b", 2);
    assert!(found(&script.clone().loses(300, "a", 1), 0, 0).is_empty());
    assert_eq!(found(&script.loses(301, "a", 1), 0, 0), [LATE]);
}
