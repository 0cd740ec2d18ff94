//! The history checker: what each process held when, and whether that was right.
//!
//! Each process writes a [`journal`]. [`check`] turns it into [`Hold`]s, and checks exclusion, fences, the
//! register, losses and waiting by the given [`Rules`]. [`timeline`] draws the run. (Checking recorded
//! histories is Jepsen's idea; the rules for locks are simpler than linearizability in general.)
//!
//! A test that has holds and no journal adds them to a [`History`]. The same checks apply.

mod check;
mod fences;
mod figures;
mod hold;
pub mod journal;
mod overlap;
mod process;
mod run;
mod timeline;
mod violation;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};

use lockwright_core::BootInstant;

pub use check::{Checked, Rules, check};
pub use figures::Figures;
pub use hold::Hold;
pub use timeline::timeline;
pub use violation::{Kind, Missing, Use, Used, Violation, Write};

/// Holds that are over. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Vec<Hold>>>);

impl History {
    /// Adds a hold that is over.
    pub fn add(&self, hold: Hold) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hold);
    }

    /// Returns all holds, in the order of the grants.
    pub fn holds(&self) -> Vec<Hold> {
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        holds.sort_by_key(|hold| (hold.granted, hold.until));
        holds
    }

    /// Returns how many holds were asked for while another one was valid. Without any, a history shows nothing.
    pub fn contended(&self) -> usize {
        let mut contended = 0;
        for holds in check::by_name(self.holds().into_iter()).values() {
            let mut last_end = BootInstant::from_nanos(0);
            for hold in holds {
                contended += usize::from(hold.asked < last_end);
                last_end = last_end.max(hold.until);
            }
        }
        contended
    }

    /// Returns what the holds break. `fences` says whether the profile has any.
    pub fn check(&self, fences: bool) -> Vec<Violation> {
        check::check_holds(&self.holds(), fences)
    }
}

#[cfg(test)]
mod tests {
    use lockwright_core::{Fence, Mode, Token};

    use super::*;

    fn hold(who: &str, fence: u64, asked: u64, granted: u64, until: u64) -> Hold {
        let mut token = [0; 16];
        token[..who.len()].copy_from_slice(who.as_bytes());
        Hold {
            who: who.to_owned(),
            name: "x".to_owned(),
            mode: Mode::Exclusive,
            token: Token::from_bytes(token),
            fence: Fence::new(fence),
            asked: BootInstant::from_nanos(asked),
            granted: BootInstant::from_nanos(granted),
            until: BootInstant::from_nanos(until),
        }
    }

    fn history(holds: &[Hold]) -> History {
        let history = History::default();
        holds.iter().rev().for_each(|hold| history.add(hold.clone()));
        history
    }

    #[test]
    fn a_right_history_is_right() {
        let history =
            history(&[hold("a", 1, 0, 10, 20), hold("b", 2, 5, 20, 30), hold("c", 9, 31, 40, 50)]);
        assert_eq!(history.check(true), []);
        assert_eq!(history.contended(), 1);
    }

    #[test]
    fn an_overlap_of_a_nanosecond_is_one() {
        let history = history(&[hold("a", 1, 0, 10, 21), hold("b", 2, 5, 20, 30)]);
        assert!(matches!(history.check(true)[..], [Violation::Overlap(..)]));
    }

    #[test]
    fn an_overlap_with_one_long_before_is_seen() {
        let history = history(&[
            hold("a", 1, 0, 10, 100),
            hold("b", 2, 11, 20, 30),
            hold("c", 3, 31, 40, 50),
        ]);
        assert_eq!(history.check(true).len(), 2);
    }

    #[test]
    fn other_names_are_other_histories() {
        let mut other = hold("b", 1, 5, 15, 30);
        other.name = "y".to_owned();
        assert_eq!(history(&[hold("a", 1, 0, 10, 21), other]).check(true), []);
    }

    #[test]
    fn a_fence_that_falls_or_comes_twice_is_seen() {
        let fell = history(&[hold("a", 7, 0, 10, 20), hold("b", 6, 21, 22, 30)]);
        assert!(matches!(fell.check(true)[..], [Violation::FenceFell(..)]));
        assert_eq!(fell.check(false), []);
        let same = history(&[hold("a", 7, 0, 10, 20), hold("b", 7, 5, 22, 30)]);
        assert!(matches!(same.check(true)[..], [Violation::SameFence(..)]));
    }

    #[test]
    fn one_that_was_asked_for_before_may_have_the_smaller_fence() {
        let history = history(&[hold("a", 7, 0, 10, 20), hold("b", 6, 9, 22, 30)]);
        assert_eq!(history.check(true), []);
    }
}
