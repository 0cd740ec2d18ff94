use super::hold::Hold;
use super::violation::Violation;

pub(crate) fn check(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut valid: Vec<&Hold> = Vec::new();
    for hold in holds.iter().filter(|hold| hold.until > hold.granted) {
        valid.retain(|before| before.until > hold.granted);
        let others = valid.iter().filter(|before| !before.is_one_with(hold));
        for before in others.clone().filter(|before| before.excludes(hold)) {
            violations.push(Violation::Overlap((*before).clone().into(), hold.clone().into()));
        }
        if let Some((count, of)) = hold.permits() {
            let sharers: Vec<&Hold> =
                others.filter(|before| !before.excludes(hold)).copied().collect();
            let taken = sharers.iter().filter_map(|before| before.permits());
            if taken.map(|(count, _)| u64::from(count)).sum::<u64>() + u64::from(count) > of.into()
            {
                let holds = sharers.into_iter().chain([hold]).cloned().collect();
                violations.push(Violation::TooManyPermits(holds));
            }
        }
        valid.push(hold);
    }
}
