use std::collections::BTreeMap;
use std::fmt::Debug;

/// The result of an operation.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The servers of one backend. Dropping them stops them.
pub trait Servers: Debug + Send {
    /// Returns the URL for Lockwright.
    fn url(&self) -> String;

    /// Returns the addresses for peers.
    fn addresses(&self) -> Vec<String>;

    /// Returns the number of commands so far, including those in scripts, or `None` if they aren't
    /// counted.
    fn served(&self) -> Result<Option<u64>>;

    /// Returns the number of keep-alives so far by connection, if the server counts them
    /// separately. [`Self::served`] includes keep-alives.
    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }

    /// Returns whether locks exist only within one process.
    fn are_in_one_process(&self) -> bool {
        false
    }

    /// Returns the servers' name and version.
    fn version(&self) -> Result<(String, String)>;
}
