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
        if let Some((count, of)) = hold.permits() {
            let sharers: Vec<&Hold> =
                others.filter(|before| !before.excludes(hold)).copied().collect();
            let taken = sharers.iter().filter_map(|before| before.permits());
            if taken.map(|(count, _)| u64::from(count)).sum::<u64>() + u64::from(count) > of.into()
            {
                let title = format!("more than {of} permits were valid at once");
                let holds: Vec<&Hold> = sharers.into_iter().chain([hold]).collect();
                violations.push(together(Violation::new(Rule::TooManyPermits, title), &holds));
            }
        }
        valid.push(hold);
    }
}

/// Adds to a violation its holds, and the time in which all were valid.
fn together(violation: Violation, holds: &[&Hold]) -> Violation {
    let from = holds.iter().map(|hold| hold.granted).max().expect("there are holds");
    let to = holds.iter().map(|hold| hold.until).min().expect("there are holds");
    violation.of(holds.iter().copied()).at(from, to)
}
