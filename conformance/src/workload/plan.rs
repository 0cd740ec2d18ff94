//! The plan of one process.

use std::time::Duration;

use lockwright_core::Profile;
use serde::{Deserialize, Serialize};

/// The plan of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run, which all its processes share.
    pub seed: u64,
    /// The number of this process in the run. Replacements have new numbers.
    pub process: u32,
    /// The names of the locks, and the base of the semaphores' names.
    pub names: Vec<String>,
    /// The TTL of the holds.
    pub ttl: Duration,
    /// The time in which the process makes requests.
    pub duration: Duration,
    /// The kinds of work to choose from. A kind may be listed several times.
    pub work: Vec<Work>,
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Acquires a mutex, and releases or drops its guard.
    Mutex,
    /// Acquires a lock as a reader.
    Readers,
    /// Acquires permits of a semaphore.
    Permits,
    /// Acquires two names at once.
    Multi,
    /// Campaigns, leads, and resigns.
    Election,
    /// Turns a hold into a ticket, or resumes another process's ticket.
    Ticket,
    /// Inspects a hold and breaks it, at once or by letting it run out.
    Break,
    /// Acquires a mutex twice as one owner.
    Reentrancy,
    /// Drops requests and releases at random moments.
    DroppedFutures,
    /// Closes the client while other tasks use it, and replaces it.
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

    /// Returns all kinds that the backend supports, the mutex three times.
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
