//! The history checker: finds violations in the journals of several processes.
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
mod rivals;
mod run;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod tracked;
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

    /// Returns how many holds were asked for while another hold was valid. A history without any shows nothing.
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
