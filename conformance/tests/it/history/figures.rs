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
        operations: 5,
        requests: 2,
        grants: 2,
        contended: 1,
        hand_overs: 1,
        faults: 1,
        losses: 1,
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
    assert_eq!((twice.operations, twice.writes_refused), (10, 2));
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
fn figures_are_printed_in_words() {
    let text = figures(&paused(), Duration::ZERO).to_string();
    for line in [
        "5 operations, among them 2 requests",
        "1 hand-overs from one process to another",
        "1 faults, 1 losses reported",
        "1 of 2 writes refused by the register, 1 of 1 late writes refused",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
