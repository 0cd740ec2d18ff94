//! The workload of one client process in a run with random faults. A seed determines its choices.
//!
//! [`run`] makes requests through the public API for the duration of its [`Plan`], and writes a
//! [journal](crate::history::journal). Real processes use the boot clock, and simulations use a simulated clock. The
//! choices depend only on the plan's seed and process number. The timing differs from run to run.
//!
//! Several tasks of a process make requests in parallel. Each task performs random kinds of [`Work`] in sequence.
//! Holders write their fence to a [`Store`]. They also write after a loss, to show whether the store rejects late
//! writes.

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

/// The number of tasks that make requests in parallel.
const TASKS: u64 = 3;

/// The plan of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run, which all its processes share.
    pub seed: u64,
    /// The number of this process in the run. The replacement of a killed process has a new number.
    pub process: u32,
    /// The names of the locks. The names of semaphores are derived from these.
    pub names: Vec<String>,
    /// The TTL of the holds.
    pub ttl: Duration,
    /// The time in which the process makes requests.
    pub duration: Duration,
    /// The kinds of work to choose from. A kind that is listed twice is chosen twice as often.
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
    /// Turns a hold into a ticket, or resumes a ticket that another process left.
    Ticket,
    /// Inspects a hold and then breaks it, either at once or by letting it run out.
    Break,
    /// Acquires a mutex twice as one owner.
    Reentrancy,
    /// Drops requests and releases at random moments.
    DroppedFutures,
    /// Closes the client while its other tasks use it. A new client takes its place.
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

    /// Returns all kinds that the backend supports. The mutex is listed three times.
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

/// Runs `plan` with clients that `open` connects. Returns after all holds have been released or lost.
///
/// If `open` fails, it is called again until the plan's time is over. Failed requests are written to the
/// journal. They don't fail the run, because faults cause them.
///
/// # Errors
/// - The backend rejected a request as unsupported or invalid: the plan doesn't fit the backend.
/// - The store couldn't be reached.
/// - A task panicked.
///
/// # Cancel safety
/// The future may be dropped, as the simulation does to kill a process. The holds are then released in the
/// background.
pub async fn run(
    plan: &Plan,
    open: impl AsyncFn() -> Result<Locks>,
    clock: &Clock,
    journal: &Journal,
    store: Arc<dyn Store>,
) -> Result<(), Failure> {
    let until = clock.now() + plan.duration;
    if let Some(client) = open_until(&open, clock, plan, until).await {
        let process = Process::new(plan, clock, journal, store, until, client);
        work(Arc::new(process), open).await?;
    }
    journal.write(Event::Ended);
    Ok(())
}

/// Runs the tasks, and replaces the client when a task requests it.
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

/// Closes the present client.
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

/// Runs the rounds of one task. Each round has its own seed, so its choices don't depend on the rounds before it.
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

/// Opens a client. Retries until `until` if that fails.
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
