//! What the tests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Attempt, Claim, DistributedLock, Granted, Identity, LockName, Mode, Token, Upkeep, Wait,
};
use lockwright_sql::Sqlite;
use tempfile::TempDir;

/// A folder of its own, and a lock file in it.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub(crate) async fn open(&self) -> Sqlite {
        Sqlite::open(self.file()).await.unwrap()
    }
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// An exclusive claim with a fresh token.
pub(crate) fn claim(of: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(of),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        upkeep: Upkeep::Renewed,
    }
}

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) async fn granted(backend: &Sqlite, claim: &Claim) -> Granted {
    match backend.acquire(claim, Wait::No).await.unwrap() {
        Attempt::Granted(granted) => granted,
        Attempt::Busy(busy) => panic!("{} is busy: {busy:?}", claim.name),
    }
}

pub(crate) async fn is_busy(backend: &Sqlite, claim: &Claim) -> bool {
    matches!(backend.acquire(claim, Wait::No).await.unwrap(), Attempt::Busy(_))
}
