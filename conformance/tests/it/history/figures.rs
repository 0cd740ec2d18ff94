use std::time::Duration;

use super::{EXCLUSIVE, Script, Signal};
use lockwright_conformance::history::{Figures, Rules, check};

fn figures(script: &Script, loss_margin: Duration) -> Figures {
    let mut entries = script.0.clone();
    entries.sort_by_key(|entry| entry.at);
    check(&entries, &Rules { loss_margin, ..Rules::default() }).figures
}

fn paused() -> Script {
    Script::new()
        .holds("a", 1, 1, EXCLUSIVE, (100, 200))
        .asks(110, "b", 2)
        .signal(150, "a", Signal::Stopped)
        .granted(230, "b", 2, 2, 400)
        .wrote(240, "b", (2, 2), true, false)
        .signal(300, "a", Signal::Continued)
        .loses(307, "a", 1)
        .wrote(310, "a", (1, 1), false, true)
        .releases(350, "b", 2)
        .fault(120, "stop", true, None)
        .fault(320, "stop", false, Some("stopped for 150 ns"))
}

#[test]
fn run_is_counted() {
    let expected = Figures {
        runs: 1,
        operations: 5,
        requests: 2,
        grants: 2,
        contended: 1,
        hand_overs: 1,
        faults: 1,
        faults_with_effect: 1,
        losses: 1,
        unreported_losses: 0,
        paused_past_the_deadline: 1,
        paused_and_refused: 1,
        writes: 2,
        writes_refused: 1,
        late_writes: 1,
        late_writes_refused: 1,
        longest_without_a_holder: Duration::from_nanos(30),
        largest_lag_of_a_loss: Duration::from_nanos(7),
    };
    assert_eq!(figures(&paused(), Duration::ZERO), expected);
    let mut twice = expected.clone();
    twice.add(&expected);
    assert_eq!((twice.runs, twice.operations, twice.writes_refused), (2, 10, 2));
    assert_eq!(twice.longest_without_a_holder, expected.longest_without_a_holder);
}

#[test]
fn lag_of_a_loss_begins_at_the_margin() {
    let script = Script::new().holds("a", 1, 1, EXCLUSIVE, (100, 200)).loses(195, "a", 1);
    let lag = |margin| figures(&script, Duration::from_nanos(margin)).largest_lag_of_a_loss;
    assert_eq!(lag(0), Duration::ZERO);
    assert_eq!(lag(20), Duration::from_nanos(15));
}

#[test]
fn loss_that_is_never_reported_is_counted() {
    let script = Script::new().holds("a", 1, 1, EXCLUSIVE, (100, 200));
    let unreported = |script: Script| figures(&script, Duration::ZERO).unreported_losses;
    assert_eq!(unreported(script.clone().ends(300, "a")), 1);
    assert_eq!(unreported(script.clone().ends(200, "a")), 0);
    let killed = script.clone().signal(150, "a", Signal::Killed).ends(300, "b");
    assert_eq!(unreported(killed), 0);
    let stopped = script.clone().signal(150, "a", Signal::Stopped).ends(300, "b");
    assert_eq!(unreported(stopped), 0);
    assert_eq!(unreported(script.releases(250, "a", 1).ends(300, "a")), 0);
}

#[test]
fn figures_are_printed_in_words() {
    let text = figures(&paused(), Duration::ZERO).to_string();
    for line in [
        "5 operations, among them 2 requests",
        "1 hand-overs from one process to another",
        "1 of 1 faults with an observed effect",
        "1 of 2 writes refused by the register, 1 of 1 late writes refused",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn hold_is_found_behind_many_later_ones() {
    let mut script = Script::new().holds("a", 1, 1, EXCLUSIVE, (10, 90_000));
    for number in 2..2_000 {
        let from = number * 10;
        script = script.holds("b", number, number, EXCLUSIVE, (from, from + 5));
    }
    let figures = figures(&script.asks(80_000, "c", 1), Duration::ZERO);
    assert_eq!(figures.contended, 1_998 + 1);
}
