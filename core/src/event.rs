//! What a backend tells its client unasked.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::claim::Granted;
use crate::name::LockName;
use crate::token::Token;

/// What a backend tells its client unasked. Every event is a hint that may get lost, but for
/// [`Event::Handed`] and [`Event::Lost`], which state a fact when they do arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The name may be free: whoever waits for it should ask again.
    Wake(LockName),
    /// A queued claim was granted. [`Granted::start`] must be set.
    Handed(Token, Granted),
    /// The hold is in danger: the session is suspended, say. The keeper renews it at once.
    AtRisk(Token),
    /// The hold has ended on the server.
    Lost(Token, Reason),
    /// Another client wants a hold that this one keeps without using it.
    Recall(Token),
}

/// Why a hold was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It wasn't renewed in time: a fixed lease ran out, or the process or machine was paused.
    Expired,
    /// An operator broke it.
    Broken,
    /// The server couldn't be reached for too long.
    Unreachable,
    /// The server says that it doesn't have it, and not why: deleted by somebody, or its data lost.
    Gone,
    /// The session or connection that carried it ended.
    SessionEnded,
    /// It reached the longest time that its request allowed.
    HeldTooLong,
    /// What it was to write was written by a later holder.
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

/// The channel from a backend to one client. Cloning is cheap; sending never blocks and may be
/// done from any thread, but not while holding a lock that the backend's own methods take.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) -> bool + Send + Sync>);

impl Events {
    /// A channel into `sink`, which answers whether anybody still listens.
    pub fn to(sink: impl Fn(Event) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Sends `event`. False when the client has gone, so that its channel can be dropped.
    pub fn send(&self, event: Event) -> bool {
        (self.0)(event)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
