//! One hold, as its holder saw it.

use std::fmt;

use lockwright_core::{BootInstant, Fence, Mode, Token};
use serde::{Deserialize, Serialize};

/// One hold, as its holder saw it. It is valid from [`granted`](Self::granted) until
/// [`until`](Self::until), which isn't part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The holder: a task, a client, a process.
    pub who: String,
    /// The lock.
    pub name: String,
    /// How it was locked.
    pub mode: Mode,
    /// The hold's token.
    pub token: Token,
    /// Its fence.
    pub fence: Fence,
    /// Just before the request was sent.
    pub asked: BootInstant,
    /// Just after the grant returned.
    pub granted: BootInstant,
    /// The first of: the beginning of the release, the report of the loss, the last recorded deadline.
    pub until: BootInstant,
}

impl Hold {
    /// Returns whether both records are of one hold: the same token and the same holder.
    pub fn is_one_with(&self, other: &Self) -> bool {
        self.token == other.token && self.who == other.who
    }

    /// Returns whether the modes exclude each other. Permits of one semaphore don't: they are counted.
    pub fn excludes(&self, other: &Self) -> bool {
        excludes(self.mode, other.mode)
    }

    /// Returns whether a request in `mode` may have to wait for this hold: the two exclude each other, or take
    /// permits of one semaphore.
    pub fn competes_with(&self, mode: Mode) -> bool {
        excludes(self.mode, mode) || self.permits().is_some()
    }

    /// Returns the number of permits it takes, and how many the semaphore has.
    pub fn permits(&self) -> Option<(u32, u32)> {
        match self.mode {
            Mode::Permits { count, of } => Some((count, of)),
            _ => None,
        }
    }

    /// Returns whether the hold is valid at `instant`.
    pub fn is_valid_at(&self, instant: BootInstant) -> bool {
        self.granted <= instant && instant < self.until
    }

    /// Writes the hold with its times in seconds from `zero`.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>, zero: BootInstant) -> fmt::Result {
        let (asked, granted, until) =
            (seconds(zero, self.asked), seconds(zero, self.granted), seconds(zero, self.until));
        write!(
            f,
            "{} ({}, fence {}, asked at {asked:.6}, valid from {granted:.6} to {until:.6} s)",
            self.who, self.mode, self.fence
        )
    }
}

fn excludes(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared, Mode::Shared) => false,
        (Mode::Permits { of, .. }, Mode::Permits { of: other, .. }) => of != other,
        _ => true,
    }
}

/// Returns the seconds from `zero` to `instant`, negative before it.
pub(crate) fn seconds(zero: BootInstant, instant: BootInstant) -> f64 {
    instant.saturating_since(zero).as_secs_f64() - zero.saturating_since(instant).as_secs_f64()
}
