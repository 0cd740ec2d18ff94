//! The work of one client process in a run with random faults, from a seed.
//!
//! [`run`] makes requests by the public API for as long as its [`Plan`] says, and writes a
//! [journal](crate::history::journal) of them. Real processes run it on the boot clock, and simulations on a clock
//! that they move. Its choices depend on the plan's seed and process number only. The
//! server and the scheduler differ from run to run.
//!
//! Several tasks of a process make requests at the same time. A task picks one kind of [`Work`] after the
//! other. Holders write their fence to a [`Store`] in another process: while they hold, and also after a loss,
//! so that a run shows whether the store rejects late writes.

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

/// The number of tasks that make requests at the same time.
const TASKS: u64 = 3;

/// The work of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of the run, which all its processes share.
    pub seed: u64,
    /// The number of this process in the run. A process that is started again has a new number.
    pub process: u32,
    /// The locks. Semaphores have names of their own, which are made of these.
    pub names: Vec<String>,
    /// The TTL of its holds.
    pub ttl: Duration,
    /// For how long it makes requests.
    pub duration: Duration,
    /// The kinds of work to choose from. A kind that is there twice is chosen twice as often.
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
    /// Gives a hold away by a ticket, or takes over the hold of a ticket that another process left.
    Ticket,
    /// Breaks a hold that it saw a moment ago, by letting it run out or at once.
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

    /// All kinds that a backend has, the mutex three times.
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

/// Carries out `plan` with clients that `open` connects. Returns when all its holds are released or lost.
///
/// An `open` that fails is called again until the plan's time is over. Failed requests are written to the
/// journal. They don't fail the run, because faults cause them.
///
/// # Errors
/// - The backend rejected a request as unsupported or invalid, so that the plan doesn't fit the backend.
/// - The store couldn't be reached.
/// - A task panicked.
///
/// # Cancel safety
/// May be dropped, as when the process is killed. Its holds are then released in the background.
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

/// Runs the tasks, and replaces the client when one of them asks for that.
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

/// The rounds of one task. Each draws from a seed of its own, so that its choices don't depend on how the rounds
/// before it went.
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

/// Opens a client, and tries again until the time is over.
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
