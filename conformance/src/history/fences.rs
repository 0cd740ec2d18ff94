use std::collections::HashMap;

use lockwright_core::{Fence, Mode};

use super::hold::Hold;
use super::violation::{Violation, Write};

pub(crate) fn check_unique(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut by_fence: HashMap<Fence, Vec<&Hold>> = HashMap::new();
    for hold in holds {
        let same = by_fence.entry(hold.fence).or_default();
        let are_readers = |other: &Hold| hold.mode == Mode::Shared && other.mode == Mode::Shared;
        let other = same.iter().find(|other| !other.is_one_with(hold) && !are_readers(other));
        if let Some(other) = other {
            violations.push(Violation::SameFence((*other).clone().into(), hold.clone().into()));
        }
        same.push(hold);
    }
}

/// Checks that each request gets no smaller fence than a hold granted before the request. The
/// holds have one name and are sorted by grant.
pub(crate) fn check_order(holds: &[Hold], violations: &mut Vec<Violation>) {
    let has_fence = |hold: &&Hold| hold.permits().is_none();
    let mut by_request: Vec<&Hold> = holds.iter().filter(has_fence).collect();
    by_request.sort_by_key(|hold| hold.asked);
    let mut granted = holds.iter().filter(has_fence).peekable();
    let mut highest: Option<&Hold> = None;
    for hold in by_request {
        while let Some(before) = granted.next_if(|before| before.granted < hold.asked) {
            if highest.is_none_or(|highest| highest.fence < before.fence) {
                highest = Some(before);
            }
        }
        if let Some(highest) = highest.filter(|highest| hold.fence < highest.fence) {
            violations.push(Violation::FenceFell(highest.clone().into(), hold.clone().into()));
        }
    }
}

/// Checks that each exclusive grant has no smaller fence than a hold that ended before the grant.
///
/// Skips a grant that returned at or after its own deadline: the server may have ended that hold
/// before it granted the larger fence. All holds have one name. A broken hold ends at its break.
pub(crate) fn check_order_of_grants(holds: &[Hold], violations: &mut Vec<Violation>) {
    let mut exclusive: Vec<&Hold> =
        holds.iter().filter(|hold| hold.mode == Mode::Exclusive).collect();
    exclusive.sort_by_key(|hold| hold.granted);
    let mut by_end = exclusive.clone();
    by_end.sort_by_key(|hold| hold.until.max(hold.granted));
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<&Hold> = None;
    for hold in exclusive {
        let is_before =
            |before: &&Hold| before.until <= hold.granted && before.granted < hold.granted;
        while let Some(before) = ended.next_if(is_before) {
            if highest.is_none_or(|highest| highest.fence < before.fence) {
                highest = Some(before);
            }
        }
        let is_valid = hold.granted < hold.until;
        // `check_order` reports requests sent after the grant of `highest`.
        let is_lower =
            |highest: &&Hold| hold.fence < highest.fence && hold.asked <= highest.granted;
        if let Some(highest) = highest.filter(is_lower).filter(|_| is_valid) {
            violations.push(Violation::FenceFell(highest.clone().into(), hold.clone().into()));
        }
    }
}

/// Checks that the register accepted no write sent after it accepted a higher fence. The writes
/// have one name and are sorted by answer.
pub(crate) fn check_register(writes: &[&Write], violations: &mut Vec<Violation>) {
    let mut by_sending: Vec<&Write> =
        writes.iter().copied().filter(|write| write.accepted).collect();
    by_sending.sort_by_key(|write| write.sent);
    let mut answered = writes.iter().copied().filter(|write| write.accepted).peekable();
    let mut highest: Option<&Write> = None;
    for write in by_sending {
        while let Some(before) = answered.next_if(|before| before.answered < write.sent) {
            if highest.is_none_or(|highest| highest.fence < before.fence) {
                highest = Some(before);
            }
        }
        if let Some(highest) = highest.filter(|highest| write.fence < highest.fence) {
            violations.push(Violation::StaleWrite(highest.clone().into(), write.clone().into()));
        }
    }
}
