use std::time::Duration;

use lockwright_core::Profile;
use serde::{Deserialize, Serialize};

/// The plan of one client process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run.
    pub seed: u64,
    /// The process's number in the run, which its replacement doesn't reuse.
    pub process: u32,
    /// The locks' names. A semaphore's name has the suffix `/permits`.
    pub names: Vec<String>,
    /// The holds' TTL.
    pub ttl: Duration,
    /// How long the process starts new rounds.
    pub duration: Duration,
    /// The kinds of work to choose from. A kind listed twice is chosen twice as often.
    pub work: Vec<Work>,
    /// False if the process notices a loss only at its next check.
    pub watches: bool,
}

/// The work of one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A mutex.
    Mutex,
    /// A reader, or sometimes a writer.
    Readers,
    /// A semaphore's permits.
    Permits,
    /// A multi-lock of two names.
    Multi,
    /// A campaign and its leadership.
    Election,
    /// A transfer by ticket.
    Ticket,
    /// A break, immediate or by preventing renewals.
    Break,
    /// A mutex that one owner acquires twice.
    Reentrancy,
    /// Requests and releases dropped at random moments.
    DroppedFutures,
    /// A close and replacement of the client in use.
    Close,
}

impl Work {
    /// All kinds of work.
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

    /// Returns the kinds that a backend supports; `Mutex` three times, to make it frequent.
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
