use lockwright_core::{BootInstant, Fence, Mode, Token};

use lockwright_conformance::history::{History, Hold, Rule, Violation};

fn history<const N: usize>(holds: [(&str, u64, u64, u64, u64); N]) -> History {
    let history = History::default();
    for (who, fence, asked, granted, until) in holds.into_iter().rev() {
        history.add(Hold {
            who: who.to_owned(),
            name: "x".to_owned(),
            mode: Mode::Exclusive,
            token: Token::from_bytes([who.as_bytes()[0]; 16]),
            fence: Fence::new(fence),
            asked: BootInstant::from_nanos(asked),
            granted: BootInstant::from_nanos(granted),
            until: BootInstant::from_nanos(until),
        });
    }
    history
}

fn rules(found: &[Violation]) -> Vec<Rule> {
    found.iter().map(|violation| violation.rule).collect()
}

#[test]
fn history_of_ended_holds_is_checked() {
    let right = history([("a", 1, 0, 10, 20), ("b", 2, 5, 20, 30), ("c", 9, 31, 40, 50)]);
    assert_eq!(right.check(true), []);
    assert_eq!(right.contended(), 1);
    let overlap = history([("a", 1, 0, 10, 21), ("b", 2, 5, 20, 30)]);
    assert_eq!(rules(&overlap.check(true)), [Rule::Overlap]);
    let long = history([("a", 1, 0, 10, 100), ("b", 2, 11, 20, 30), ("c", 3, 31, 40, 50)]);
    assert_eq!(long.check(true).len(), 2);
    let fell = history([("a", 7, 0, 10, 20), ("b", 6, 21, 22, 30)]);
    assert_eq!(rules(&fell.check(true)), [Rule::FenceFell]);
    assert_eq!(fell.check(false), []);
    let same = history([("a", 7, 0, 10, 20), ("b", 7, 5, 22, 30)]);
    assert_eq!(rules(&same.check(true)), [Rule::SameFence]);
    // The second hold was requested before the first grant, so it may have the smaller fence.
    assert_eq!(history([("a", 7, 0, 10, 20), ("b", 6, 9, 22, 30)]).check(true), []);
}
