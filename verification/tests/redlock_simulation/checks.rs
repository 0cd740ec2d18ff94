use std::sync::{Mutex, PoisonError};

use lockwright_conformance::history::{History, Hold};
use lockwright_core::{BootInstant, Fence, Mode, Token};

use crate::network::tag;

/// A protected resource that rejects writes with an old fence. It also records each accepted write
/// that comes after a write of a later hold.
#[derive(Debug, Default)]
pub(crate) struct Register(Mutex<Writes>);

#[derive(Debug, Default)]
struct Writes {
    highest: Option<Fence>,
    /// The latest grant, and its token, among the holds with accepted writes.
    latest: Option<(BootInstant, Token)>,
    accepted: u64,
    refused: u64,
    stale: Vec<String>,
}

impl Register {
    pub(crate) fn write(&self, fence: Fence, granted: BootInstant, token: Token) -> bool {
        let mut writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writes.highest.is_some_and(|highest| fence < highest) {
            writes.refused += 1;
            return false;
        }
        writes.highest = Some(fence);
        writes.accepted += 1;
        match writes.latest {
            Some((latest, by)) if latest > granted && by != token => {
                let (stale, later) = (tag(token), tag(by));
                writes.stale.push(format!("{stale} wrote with fence {fence} after {later} had"));
            }
            _ => writes.latest = Some((granted, token)),
        }
        true
    }

    /// Returns the number of rejected writes, and a text for each stale write that was accepted.
    pub(crate) fn outcome(&self) -> (u64, Vec<String>) {
        let writes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (writes.refused, writes.stale.clone())
    }
}

pub(crate) fn violations(history: &History) -> Vec<String> {
    let mut found: Vec<String> =
        history.check(true).iter().map(|violation| violation.to_string()).collect();
    if found.is_empty() {
        // Fences must follow the order of grants only if no two holds overlapped.
        found.extend(out_of_order(&history.holds()));
    }
    // Sort, because the checker's order of names is unspecified.
    found.sort();
    found
}

fn out_of_order(holds: &[Hold]) -> Option<String> {
    holds.iter().enumerate().find_map(|(at, later)| {
        let before = &holds[..at];
        let same = |before: &&Hold| before.name == later.name && before.granted < later.granted;
        let highest = before.iter().filter(same).max_by_key(|before| before.fence)?;
        (highest.fence > later.fence).then(|| {
            format!(
                "out of order: {} had fence {}, and {} later {}",
                highest.who, highest.fence, later.who, later.fence
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(number: u8, fence: u64, asked: u64, granted: u64, until: u64) -> Hold {
        Hold {
            who: number.to_string(),
            name: "x".to_owned(),
            mode: Mode::Exclusive,
            token: Token::from_bytes([number; 16]),
            fence: Fence::new(fence),
            asked: BootInstant::from_nanos(asked),
            granted: BootInstant::from_nanos(granted),
            until: BootInstant::from_nanos(until),
        }
    }

    fn found(holds: &[Hold]) -> Vec<String> {
        let history = History::default();
        holds.iter().for_each(|hold| history.add(hold.clone()));
        violations(&history)
    }

    #[test]
    fn fences_are_in_the_order_of_the_holds_whenever_they_were_asked_for() {
        assert!(found(&[hold(1, 7, 0, 10, 20), hold(2, 8, 5, 20, 30)]).is_empty());
        let fell = found(&[hold(1, 7, 0, 10, 20), hold(2, 6, 5, 20, 30)]);
        assert!(matches!(&fell[..], [text] if text.starts_with("out of order")), "{fell:?}");
    }

    #[test]
    fn two_at_once_are_seen() {
        assert!(!found(&[hold(1, 7, 0, 10, 21), hold(2, 8, 5, 20, 30)]).is_empty());
    }

    #[test]
    fn a_register_refuses_smaller_fences_and_notices_what_they_cannot_tell() {
        let register = Register::default();
        let (at, token) = (BootInstant::from_nanos, |number| Token::from_bytes([number; 16]));
        assert!(register.write(Fence::new(5), at(10), token(1)));
        assert!(register.write(Fence::new(6), at(20), token(2)));
        assert!(!register.write(Fence::new(5), at(10), token(1)));
        assert_eq!(register.outcome(), (1, Vec::new()));
        // This hold was granted before the latest one, so its accepted write is stale.
        assert!(register.write(Fence::new(9), at(15), token(3)));
        assert_eq!(register.outcome().1.len(), 1);
    }
}
