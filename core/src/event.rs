//! Events from a backend to its client.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::claim::Granted;
use crate::name::LockName;
use crate::token::Token;

/// An event from a backend to its client. Any event may get lost. Only [`Event::Handed`] and [`Event::Lost`] are
/// facts; the others are hints.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The name may be free: its waiters should retry.
    Wake(LockName),
    /// A queued claim was granted. [`Granted::start`] must be set.
    Handed(Token, Granted),
    /// The hold is in danger, for example its session is suspended. The client renews it at once.
    AtRisk(Token),
    /// The hold has ended on the server.
    Lost(Token, Reason),
    /// Another client requests a hold that this client keeps without using it.
    Recall(Token),
}

/// The reason why a hold was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It wasn't renewed in time: a fixed lease expired, or the process or machine was paused.
    Expired,
    /// An operator broke it.
    Broken,
    /// The server couldn't be reached for too long.
    Unreachable,
    /// The server doesn't have it, without a reason: it was deleted, or data was lost.
    Gone,
    /// Its session or connection ended.
    SessionEnded,
    /// It reached its request's longest duration.
    HeldTooLong,
    /// A later holder has written already.
    Superseded,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it was not renewed within its TTL",
            Self::Broken => "an operator broke it",
            Self::Unreachable => "the server could not be reached for too long",
            Self::Gone => "the server no longer has it",
            Self::SessionEnded => "the session that carried it ended",
            Self::HeldTooLong => "it was held for the longest time that was allowed",
            Self::Superseded => "a later holder has written since",
        })
    }
}

/// The channel from a backend to one client. Sending never blocks. Any thread may send, but not while holding a
/// lock that the backend's own methods take.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) -> bool + Send + Sync>);

impl Events {
    /// Creates a channel. `sink` returns whether the receiver still exists.
    pub fn to(sink: impl Fn(Event) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Sends `event`. False if the client is gone.
    pub fn send(&self, event: Event) -> bool {
        (self.0)(event)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
