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
        if hold.permits().is_some() {
            let sharers = others.filter(|before| !before.excludes(hold)).copied();
            let sharers: Vec<&Hold> = sharers.chain([hold]).collect();
            if let Some(of) = exceeded_size(sharers.clone()) {
                let title = format!("more than {of} permits were valid at once");
                violations.push(together(Violation::new(Rule::TooManyPermits, title), &sharers));
            }
        }
        valid.push(hold);
    }
}

/// Returns the exceeded size if no order of grants explains the holds. A hold's size limits its
/// permits plus those granted before it.
fn exceeded_size(mut holds: Vec<&Hold>) -> Option<u32> {
    loop {
        // The last grant can't have returned before another hold was requested.
        let asked = holds.iter().map(|hold| hold.asked).max()?;
        let counts = holds.iter().filter_map(|hold| hold.permits());
        let taken: u64 = counts.map(|(count, _)| u64::from(count)).sum();
        let sizes = holds.iter().enumerate().filter(|(_, hold)| hold.granted >= asked);
        let sizes = sizes.filter_map(|(at, hold)| Some((hold.permits()?.1, at)));
        let (size, last) = sizes.max()?;
        if taken > size.into() {
            return Some(size);
        }
        holds.swap_remove(last);
    }
}

fn together(violation: Violation, holds: &[&Hold]) -> Violation {
    let from = holds.iter().map(|hold| hold.granted).max().expect("there are holds");
    let to = holds.iter().map(|hold| hold.until).min().expect("there are holds");
    violation.of(holds.iter().copied()).at(from, to)
}
