use std::collections::HashMap;

use lockwright_core::{Fence, Mode};

use super::hold::Hold;
use super::run::Run;
use super::violation::{Rule, Violation, Write};

pub(crate) fn check_unique(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut by_fence: HashMap<Fence, Vec<&Hold>> = HashMap::new();
    for hold in holds {
        let same = by_fence.entry(hold.fence).or_default();
        let are_readers = |other: &Hold| hold.mode == Mode::Shared && other.mode == Mode::Shared;
        let other = same.iter().find(|other| !other.is_one_with(hold) && !are_readers(other));
        if let Some(other) = other {
            let violation = Violation::new(Rule::SameFence, "two holds had one fence");
            violations.push(violation.of([other, hold]).at(hold.granted, hold.granted));
        }
        same.push(hold);
    }
}

/// Returns each item whose fence is smaller than that of an item of `earlier` before it, with the
/// largest such fence. Both lists are sorted by the times that `is_before` compares.
fn falls<T: Copy>(
    items: Vec<T>,
    earlier: impl IntoIterator<Item = T>,
    is_before: impl Fn(T, T) -> bool,
    fence: impl Fn(T) -> Fence,
) -> impl Iterator<Item = (T, T)> {
    let (mut earlier, mut highest) = (earlier.into_iter().peekable(), None);
    items.into_iter().filter_map(move |item| {
        while let Some(before) = earlier.next_if(|before| is_before(*before, item)) {
            if highest.is_none_or(|highest| fence(highest) < fence(before)) {
                highest = Some(before);
            }
        }
        Some((highest.filter(|highest| fence(item) < fence(*highest))?, item))
    })
}

fn fell((highest, hold): (&Hold, &Hold)) -> Violation {
    let violation = Violation::new(Rule::FenceFell, "a later hold had a smaller fence");
    violation.of([highest, hold]).at(hold.granted, hold.granted)
}

/// Checks the fences of the holds of one name, sorted by grant, against the order of requests.
pub(crate) fn check_order(holds: &[Hold], violations: &mut Vec<Violation>) {
    let granted = holds.iter().filter(|hold| hold.permits().is_none());
    let mut by_request: Vec<&Hold> = granted.clone().collect();
    by_request.sort_by_key(|hold| hold.asked);
    let is_before = |before: &Hold, hold: &Hold| before.granted < hold.asked;
    violations.extend(falls(by_request, granted, is_before, |hold| hold.fence).map(fell));
}

/// Checks that no exclusive grant has a smaller fence than a hold that ended before it. Skips a
/// grant that returned at or after its hold's deadline: on the server, this hold may have come
/// first. All holds have one name. A broken hold ends at its break.
pub(crate) fn check_order_of_grants(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut exclusive: Vec<&Hold> =
        holds.iter().filter(|hold| hold.mode == Mode::Exclusive).collect();
    exclusive.sort_by_key(|hold| hold.granted);
    let mut by_end = exclusive.clone();
    by_end.sort_by_key(|hold| hold.until.max(hold.granted));
    let is_before =
        |before: &Hold, hold: &Hold| before.until <= hold.granted && before.granted < hold.granted;
    // `check_order` checks requests sent after the grant of `highest`.
    let is_meant = |(highest, hold): &(&Hold, &Hold)| {
        hold.asked <= highest.granted && hold.granted < hold.until
    };
    let falls = falls(exclusive, by_end, is_before, |hold| hold.fence);
    violations.extend(falls.filter(is_meant).map(fell));
}

/// Checks the writes for one name, sorted by answer, for [`Rule::StaleWrite`].
pub(crate) fn check_register(run: &Run, writes: &[&Write], violations: &mut Vec<Violation>) {
    let answered = writes.iter().copied().filter(|write| write.accepted);
    let mut by_sending: Vec<&Write> = answered.clone().collect();
    by_sending.sort_by_key(|write| write.sent);
    let is_before = |before: &Write, write: &Write| before.answered < write.sent;
    let stale = falls(by_sending, answered, is_before, |write| write.fence);
    violations.extend(stale.map(|(highest, write)| {
        let Write { who, fence, answered, .. } = write;
        let violation = Violation::new(Rule::StaleWrite, "the register accepted a stale write");
        let violation = violation.by(&[&highest.who, who]).at(*answered, *answered);
        let (before, sent) = (run.since(highest.answered), run.since(write.sent));
        violation.note(format!(
            "{} wrote {:?} with fence {} at {before:.6} s, and {who} with fence {fence} after \
             {sent:.6} s",
            highest.who, highest.name, highest.fence
        ))
    }));
}
