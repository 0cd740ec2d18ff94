use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason for the loss of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The hold wasn't renewed in time.
    Expired,
    /// An operator broke the hold.
    Broken,
    /// The hold wasn't renewed in time, because the server couldn't be reached.
    Unreachable,
    /// The server no longer has the hold.
    Gone,
    /// The hold's session or connection ended.
    SessionEnded,
    /// The hold reached its [`max_hold`](crate::Request::max_hold).
    HeldTooLong,
    /// A later holder has written to the resource.
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
