//! The history checker: finds violations in the journals of several processes.
//!
//! [`check`] derives [`Hold`]s from [`journal`]s and applies [`Rules`], like Jepsen. [`timeline`]
//! draws the run.

mod check;
mod fences;
mod figures;
mod hold;
pub mod journal;
mod losses;
mod overlap;
mod process;
mod rules;
mod run;
mod timeline;
mod tracked;
mod violation;
mod waiting;

use std::sync::{Arc, Mutex};

use lockwright_core::BootInstant;
use lockwright_core::backend_util::lock;

pub use check::{Checked, check};
pub use figures::Figures;
pub use hold::Hold;
use journal::Entry;
pub use rules::Rules;
pub use timeline::timeline;
pub use violation::{Kind, Rule, Violation};

pub(crate) fn holds(mut entries: Vec<Entry>) -> Vec<Hold> {
    entries.sort_by_key(|entry| entry.at);
    run::Run::of(&entries).holds.into_iter().map(|tracked| tracked.hold).collect()
}

/// Ended holds, for a test without a journal. Clones share the holds.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<Vec<Hold>>>);

impl History {
    /// Adds an ended hold.
    pub fn add(&self, hold: Hold) {
        lock(&self.0).push(hold);
    }

    /// Returns all holds, sorted by grant.
    pub fn holds(&self) -> Vec<Hold> {
        let mut holds = lock(&self.0).clone();
        holds.sort_by_key(|hold| (hold.granted, hold.until));
        holds
    }

    /// Counts the holds requested during another hold of the name; with none, a test shows nothing.
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

    /// Returns the violations of exclusion and, if `fences` is true, of the rules for fences.
    pub fn check(&self, fences: bool) -> Vec<Violation> {
        check::check_holds(&self.holds(), fences)
    }
}
