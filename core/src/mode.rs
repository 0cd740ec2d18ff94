//! How a name is locked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a name is locked. A name is a mutex, a read-write lock or a semaphore of one size, never
/// two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of holders, and no exclusive one: a read lock.
    Shared,
    /// A weighted semaphore: `count` permits of the `of` that the name has.
    Permits {
        /// How many permits this claim wants.
        count: u32,
        /// How many there are.
        of: u32,
    },
}

impl Mode {
    /// Whether a name can be in use in both: a lock, which is a mutex as long as nobody reads, or a
    /// semaphore of one size.
    pub const fn is_of_the_kind_of(self, other: Self) -> bool {
        match (self, other) {
            (Self::Permits { of, .. }, Self::Permits { of: other, .. }) => of == other,
            (Self::Permits { .. }, _) | (_, Self::Permits { .. }) => false,
            _ => true,
        }
    }

    /// What a name is that is in use like this.
    pub(crate) fn kind(self) -> String {
        match self {
            Self::Exclusive | Self::Shared => "a lock".to_owned(),
            Self::Permits { of, .. } => format!("a semaphore of {of}"),
        }
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
