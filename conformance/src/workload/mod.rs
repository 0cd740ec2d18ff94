//! The workload of one client process in a run with random faults.
//!
//! [`run`] makes requests through the public API for the time of its [`Plan`], and writes a
//! [journal](crate::history::journal). The choices depend only on the plan's seed and process number. The timing
//! varies.
//!
//! Several tasks do random kinds of [`Work`] in parallel. Holders write their fence to a [`Store`], also after a
//! loss, to test whether it rejects late writes.

mod held;
mod holding;
mod process;
mod random;
mod rounds;
#[cfg(feature = "paused")]
pub mod simulation;
mod store;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BootInstant, Clock, Locks, Profile, Result};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::case::Failure;
use crate::history::journal::{Event, Journal};

use process::{Client, Process};

pub use random::Random;
pub use store::{MemoryStore, RemoteStore, Store};

const TASKS: u64 = 3;

/// The plan of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run, which all its processes share.
    pub seed: u64,
    /// The number of this process in the run. Replacements have new numbers.
    pub process: u32,
    /// The names of the locks, and the base of the semaphores' names.
    pub names: Vec<String>,
    /// The TTL of the holds.
    pub ttl: Duration,
    /// The time in which the process makes requests.
    pub duration: Duration,
    /// The kinds of work to choose from. A kind may be listed several times.
    pub work: Vec<Work>,
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Acquires a mutex, and releases or drops its guard.
    Mutex,
    /// Acquires a lock as a reader.
    Readers,
    /// Acquires permits of a semaphore.
    Permits,
    /// Acquires two names at once.
    Multi,
    /// Campaigns, leads, and resigns.
    Election,
    /// Turns a hold into a ticket, or resumes another process's ticket.
    Ticket,
    /// Inspects a hold and breaks it, at once or by letting it run out.
    Break,
    /// Acquires a mutex twice as one owner.
    Reentrancy,
    /// Drops requests and releases at random moments.
    DroppedFutures,
    /// Closes the client while other tasks use it, and replaces it.
    Close,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Mutex,
        Self::Readers,
        Self::Permits,
        Self::Multi,
        Self::Election,
        Self::Ticket,
        Self::Break,
        Self::Reentrancy,
        Self::DroppedFutures,
        Self::Close,
    ];

    /// Returns all kinds that the backend supports, the mutex three times.
    pub fn all_for(profile: &Profile) -> Vec<Self> {
        let has = |work: &Self| match work {
            Self::Readers => profile.modes.shared,
            Self::Permits => profile.modes.permits,
            Self::Ticket => profile.tickets,
            Self::Break => profile.breakable,
            _ => profile.modes.exclusive,
        };
        let often = [Self::Mutex, Self::Mutex];
        often.into_iter().chain(Self::ALL).filter(has).collect()
    }
}

/// Runs `plan` with clients that `open` connects. Returns after the end of all holds.
///
/// If `open` fails, it is retried until the plan's time is over. Failed requests are only written to the journal,
/// because faults cause them.
///
/// # Errors
/// - The backend rejected a request as unsupported or invalid.
/// - The store couldn't be reached.
/// - A task panicked.
///
/// # Cancel safety
/// The future may be dropped, which simulates a kill. The holds are then released in the background.
pub async fn run(
    plan: &Plan,
    open: impl AsyncFn() -> Result<Locks>,
    clock: &Clock,
    journal: &Journal,
    store: Arc<dyn Store>,
) -> Result<(), Failure> {
    run_with(plan, open, clock, journal, store, true).await
}

/// Runs `plan`. Without `watches`, the process notices a loss only at its next check.
async fn run_with(
    plan: &Plan,
    open: impl AsyncFn() -> Result<Locks>,
    clock: &Clock,
    journal: &Journal,
    store: Arc<dyn Store>,
    watches: bool,
) -> Result<(), Failure> {
    let until = clock.now() + plan.duration;
    if let Some(client) = open_until(&open, clock, plan, until).await {
        let process = Process::new(plan, clock, journal, store, until, client, watches);
        work(Arc::new(process), open).await?;
    }
    journal.write(Event::Ended);
    Ok(())
}

async fn work(process: Arc<Process>, open: impl AsyncFn() -> Result<Locks>) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(rounds_of(Arc::clone(&process), task));
    }
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => ended??,
                None => break,
            },
            () = process.reopen.notified() => {
                close(&process).await?;
                let (clock, plan) = (&process.clock, &process.plan);
                if let Some(client) = open_until(&open, clock, plan, process.until).await {
                    process.replace(client);
                }
            }
        }
    }
    close(&process).await
}

async fn close(process: &Process) -> Result<(), Failure> {
    let limit = process.plan.ttl * 10 + Duration::from_secs(10);
    let client = process.client();
    tokio::select! {
        () = client.close() => Ok(()),
        () = process.sleep(limit) => {
            Err(Failure::late(format!("close() did not return within {limit:?}")))
        }
    }
}

/// Runs the rounds of a task. Each has its own seed, so its choices don't depend on earlier rounds.
async fn rounds_of(process: Arc<Process>, task: u64) -> Result<(), Failure> {
    let seed = Random::of(process.plan.seed, u64::from(process.plan.process) << 8 | task).next();
    for round in 0.. {
        if process.is_over() {
            break;
        }
        let mut random = Random::of(seed, round);
        let work = *random.one_of(&process.plan.work);
        let pause = random.time(Duration::ZERO, Duration::from_millis(15));
        process.round(work, &mut random).await?;
        process.sleep(pause).await;
    }
    Ok(())
}

/// Opens a client. Retries until `until`.
async fn open_until(
    open: &impl AsyncFn() -> Result<Locks>,
    clock: &Clock,
    plan: &Plan,
    until: BootInstant,
) -> Option<Client> {
    let opening = async {
        loop {
            match open().await {
                Ok(locks) => return Client::new(locks),
                Err(_) => clock.sleep(plan.ttl / 10).await,
            }
        }
    };
    tokio::select! {
        client = opening => Some(client),
        () = clock.sleep_until(until) => None,
    }
}
