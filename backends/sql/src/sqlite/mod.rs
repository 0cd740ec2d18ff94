//! Locks in a SQLite file, shared by the processes of one machine.
//!
//! A hold is a row that expires at an instant of the boot clock, stored with the boot id: a row
//! of another boot has expired. The clock runs during suspend and ignores steps of the wall clock.
//!
//! Fences come from one counter in the file, so they grow as long as the file exists.
//!
//! # Requirements
//!
//! - The file must be on a local file system. Opening a file that other machines may share fails,
//!   unless [`Config::any_file_system`] is set.
//! - A process that uses a lock file must not open it by other means or with a second copy of
//!   SQLite, because closing the second handle drops SQLite's POSIX locks.
//! - Don't delete or replace the file while it is in use. Each process detects that at its next
//!   request and returns an error, but holds in the old and the new file may overlap.
//! - The runtime must have its timer and its I/O driver enabled.

mod backend;
#[cfg(not(target_os = "macos"))]
mod boot;
mod config;
mod connection;
mod doctor;
mod errors;
mod fencing;
#[cfg(not(target_os = "macos"))]
mod file_system;
#[cfg(any(test, target_os = "macos"))]
mod macos;
mod shared_holders;
mod statements;
mod wakeup;
mod writer;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Result, Scope, WakeUp};

pub use config::{Config, Synchronous};
pub use fencing::{FENCE_CHECK, check_fence, make_fence_table};

use connection::Database;
use wakeup::Waiters;
use writer::Jobs;
#[cfg(target_os = "macos")]
use {macos as boot, macos as file_system};

/// Locks in a SQLite file.
///
/// One value, shared through an `Arc`, is enough for a process. Dropping it closes the connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockwright_core::Result<()> {
/// use lockwright_core::DistributedLock;
/// use lockwright_sql::Sqlite;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("locks.db");
/// let backend = Sqlite::open(&path).await?;
/// assert_eq!(backend.profile().backend, "sqlite");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sqlite {
    database: Database,
    jobs: Jobs,
    waiters: Arc<Waiters>,
}

impl Sqlite {
    /// Opens the lock file at `path`, and creates it if missing.
    ///
    /// # Errors
    /// As [`Config::connect`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Config::file(path).connect().await
    }

    /// Opens a file by its URL. The errors are those of [`Config::new`] and [`Config::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Config::new(url)?.connect().await
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }
}

/// Returns the backend's properties.
pub fn profile() -> Profile {
    PROFILE.clone()
}

static PROFILE: LazyLock<Profile> = LazyLock::new(|| {
    let mut profile = Profile::new("sqlite");
    profile.scope = Scope::Machine;
    profile.fencing = Fencing::Strict;
    profile.order = Order::None;
    profile.modes = Modes { exclusive: true, shared: true, permits: true };
    profile.wake_up = WakeUp::Push;
    profile.survives = Faults::of(&[
        Fault::ClientCrash,
        Fault::Partition,
        Fault::ServerRestart,
        Fault::ServerClockStep,
    ]);
    profile.tombstones = true;
    profile.breakable = true;
    profile.tickets = true;
    profile.keeps_after_release = true;
    profile.ttl = Duration::from_millis(50)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    // A process that is killed after its commit wakes no waiter, so waiters poll.
    profile.slow_poll = Duration::from_secs(1);
    profile
});
