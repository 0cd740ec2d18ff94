//! The plan of one process.

use std::time::Duration;

use lockwright_core::Profile;
use serde::{Deserialize, Serialize};

/// One process's plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run.
    pub seed: u64,
    /// Its number in the run, new for a replacement.
    pub process: u32,
    /// The locks' names, and the base of the semaphores'.
    pub names: Vec<String>,
    /// The holds' TTL.
    pub ttl: Duration,
    /// The time for requests.
    pub duration: Duration,
    /// The kinds of work to choose from, possibly repeated.
    pub work: Vec<Work>,
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A mutex.
    Mutex,
    /// A reader.
    Readers,
    /// A semaphore's permits.
    Permits,
    /// Two names at once.
    Multi,
    /// A campaign and a term.
    Election,
    /// A transfer by ticket.
    Ticket,
    /// A break, at once or by a run-out.
    Break,
    /// A mutex, twice by one owner.
    Reentrancy,
    /// Futures dropped at random moments.
    DroppedFutures,
    /// A client that is closed in use, and replaced.
    Close,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Mutex,
        Self::Readers,
        Self::Permits,
        Self::Multi,
        Self::Election,
        Self::Ticket,
        Self::Break,
        Self::Reentrancy,
        Self::DroppedFutures,
        Self::Close,
    ];

    /// Returns the supported kinds, the mutex three times.
    pub fn all_for(profile: &Profile) -> Vec<Self> {
        let has = |work: &Self| match work {
            Self::Readers => profile.modes.shared,
            Self::Permits => profile.modes.permits,
            Self::Ticket => profile.tickets,
            Self::Break => profile.breakable,
            _ => profile.modes.exclusive,
        };
        let often = [Self::Mutex, Self::Mutex];
        often.into_iter().chain(Self::ALL).filter(has).collect()
    }
}
