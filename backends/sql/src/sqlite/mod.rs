//! Locks in a SQLite file, shared by the processes of one machine.
//!
//! A hold is a row that runs out by itself. Its expiry is an instant of `CLOCK_BOOTTIME`, stored
//! beside the boot id: the clock runs while the machine sleeps, no step of the wall clock moves
//! it, and a row of another boot is over. Fences come from one counter in the file, so they grow
//! for as long as the file lives; at `synchronous=FULL`, the default, also through a power cut.
//!
//! | file | subject |
//! |---|---|
//! | `options` | URL and settings |
//! | `backend` | the trait |
//! | `writer` | the one task that owns the connection: queue, transactions, patience |
//! | `statements` | one function for each thing done to the rows |
//! | `beside` | the same for those who hold a name beside each other: readers, permits |
//! | `transaction` | fences in a transaction of the application's own, in a file of its own |
//! | `connection` | opening the file, its schema |
//! | `errors` | what SQLite's errors say about a request's effect |
//! | `wakeup` | how waiters of this and other processes learn of a release |
//! | `boot` | the boot id |
//! | `file_system` | whether other machines may share the file |
//! | `doctor` | what is looked at on a live file |
//!
//! # What to know
//!
//! - The file must be on a local file system. On a file system that other machines may share, opening
//!   it fails unless [`Options::any_file_system`] is set.
//! - SQLite's own locks on the file are lost when the same process opens and closes the file by
//!   other means (POSIX locks work like that): leave an open lock file alone, and don't open it
//!   with a second copy of SQLite in the same process.
//! - Don't delete or replace the file while it is in use. Each process notices at its next request
//!   and refuses with an error, but a hold from before and one from after may overlap.
//! - The runtime must have its timer and its I/O driver enabled.

mod backend;
mod beside;
mod boot;
mod connection;
mod doctor;
mod errors;
mod file_system;
mod options;
mod statements;
mod transaction;
mod wakeup;
mod writer;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lockwright_core::{Fault, Faults, Fencing, Modes, Order, Profile, Reach, Result, WakeUp};

pub use options::{Options, Synchronous};
pub use transaction::{check_fence, make_fence_table};

use connection::Database;
use wakeup::Waiters;
use writer::Jobs;

/// Locks in a SQLite file, for the processes of one machine.
///
/// Cheap to share through an `Arc`; one is enough for a process. The connection is closed when the
/// last reference goes.
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
    /// Opens the lock file at `path`, and makes it if it isn't there.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options(path).open().await
    }

    /// Opens the file that a URL names; [`Options::from_url`] says how such a URL looks.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) when it isn't such a URL;
    /// otherwise as [`Options::open`].
    pub async fn connect(url: &str) -> Result<Self> {
        Options::from_url(url)?.open().await
    }

    /// Settings to begin with.
    pub fn options(path: impl AsRef<Path>) -> Options {
        Options::new(path)
    }

    /// The absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }
}

/// What it promises.
pub fn profile() -> Profile {
    PROFILE.clone()
}

static PROFILE: LazyLock<Profile> = LazyLock::new(|| {
    let mut profile = Profile::new("sqlite");
    profile.reach = Reach::Machine;
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
    profile.ttl = Duration::from_millis(50)..=Profile::LONGEST_TTL;
    profile.renew_batch = 500;
    // Only for wake-ups that got lost: a process killed between its commit and its notice, or a
    // row deleted by hand.
    profile.slow_poll = Duration::from_secs(1);
    profile
});
