use super::hold::Hold;
use super::violation::{Rule, Violation};

pub(crate) fn check(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut valid: Vec<&Hold> = Vec::new();
    for hold in holds.iter().filter(|hold| hold.until > hold.granted) {
        valid.retain(|before| before.until > hold.granted);
        let others = valid.iter().filter(|before| !before.is_one_with(hold));
        for before in others.clone().filter(|before| before.excludes(hold)) {
            let violation = Violation::new(Rule::Overlap, "two holds were valid at once");
            violations.push(together(violation, &[before, hold]));
        }
        let sharers = others.filter(|before| !before.excludes(hold)).copied();
        let sharers: Vec<&Hold> = sharers.chain([hold]).collect();
        if let Some(of) = exceeded_size(&sharers, hold) {
            let title = format!("more than {of} permits were valid at once");
            violations.push(together(Violation::new(Rule::TooManyPermits, title), &sharers));
        }
        valid.push(hold);
    }
}

/// Returns the size of the semaphore, if the `last` of the holds has more permits than it with the
/// others. Holds that the server may have granted after it may have a larger size.
fn exceeded_size(holds: &[&Hold], last: &Hold) -> Option<u32> {
    let taken = holds.iter().filter_map(|hold| hold.permits()).map(|(count, _)| u64::from(count));
    let may_be_last = |hold: &&&Hold| hold.granted >= last.asked;
    let sizes = holds.iter().filter(may_be_last).filter_map(|hold| hold.permits());
    let size = sizes.map(|(_, of)| of).max()?;
    (taken.sum::<u64>() > size.into()).then_some(size)
}

/// Adds to a violation its holds, and the time in which all were valid.
fn together(violation: Violation, holds: &[&Hold]) -> Violation {
    let from = holds.iter().map(|hold| hold.granted).max().expect("there are holds");
    let to = holds.iter().map(|hold| hold.until).min().expect("there are holds");
    violation.of(holds.iter().copied()).at(from, to)
}
