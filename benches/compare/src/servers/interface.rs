use std::collections::BTreeMap;
use std::fmt::Debug;

/// The result of an operation.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The servers of one backend. Dropping them stops them.
#[derive(Debug)]
pub struct Servers {
    /// The URL for Lockwright.
    pub url: String,
    /// The addresses for peers.
    pub addresses: Vec<String>,
    /// The servers' name and version.
    pub version: (String, String),
    pub(crate) counts: Box<dyn Counts>,
}

pub(crate) trait Counts: Debug + Send {
    /// Returns the number of commands so far, with those in scripts, or `None` without a count.
    fn served(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns the number of keep-alives so far by connection, if the server counts them
    /// separately. [`Self::served`] includes keep-alives.
    fn keep_alives(&self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}

impl Servers {
    pub(super) fn new(
        url: String,
        addresses: Vec<String>,
        version: (&str, String),
        counts: impl Counts + 'static,
    ) -> Self {
        let version = (version.0.to_owned(), version.1);
        Self { url, addresses, version, counts: Box::new(counts) }
    }
}
