use std::fmt;

use serde::{Deserialize, Serialize};

/// The mode of a claim. A name is either a read-write lock or a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Concurrent readers.
    Shared,
    /// `count` of the `of` permits of a semaphore.
    Permits {
        /// This claim's permits.
        count: u32,
        /// The semaphore's size for this claim, which is granted if the held permits plus `count`
        /// are at most `of`.
        of: u32,
    },
}

impl Mode {
    /// Returns whether claims of both modes can use one name.
    pub const fn is_of_the_kind_of(self, other: Self) -> bool {
        matches!(self, Self::Permits { .. }) == matches!(other, Self::Permits { .. })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permits { count, of } => write!(f, "{count} of {of} permits"),
        }
    }
}
