//! The servers of one backend.

use std::fmt::Debug;

/// The result of an operation.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The servers of one backend. Dropping them stops them.
pub trait Servers: Debug + Send {
    /// Returns Lockwright's URL.
    fn url(&self) -> String;

    /// Returns the peers' addresses.
    fn addresses(&self) -> Vec<String>;

    /// Returns the number of commands, also in scripts, if counted.
    ///
    /// # Errors
    /// If they don't answer.
    fn served(&self) -> Result<Option<u64>>;

    /// Returns whether locks exist in one process.
    fn are_in_one_process(&self) -> bool {
        false
    }

    /// Returns their name and version.
    ///
    /// # Errors
    /// If they don't answer.
    fn version(&self) -> Result<(String, String)>;
}
