use std::fmt;
use std::sync::Arc;

use crate::{Granted, LockName, Reason, Token};

/// An event from a backend to its client. Any event may get lost. Only [`Event::Handed`] and
/// [`Event::Lost`] state facts; the others are hints.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The name may be free.
    Wake(LockName),
    /// A queued claim was granted. [`Granted::start`] must be set.
    Handed(Token, Granted),
    /// The hold may be lost soon. The client renews it at once.
    AtRisk(Token),
    /// The hold has ended on the server.
    Lost(Token, Reason),
    /// Another client requests the name of a hold whose claim has
    /// [`recall`](crate::Claim::recall). The client releases the hold once no guard has it.
    Recall(Token),
}

/// The channel to one client. Sending never blocks.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) -> bool + Send + Sync>);

impl Events {
    /// Creates a channel to `sink`, which returns whether the receiver still exists.
    pub fn to(sink: impl Fn(Event) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Sends an event. Returns false if the client no longer exists.
    pub fn send(&self, event: Event) -> bool {
        (self.0)(event)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
