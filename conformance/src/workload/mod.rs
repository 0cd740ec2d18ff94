//! The workload of one client process in a run with random faults.
//!
//! [`run`] uses the public API and writes a [journal](crate::history::journal). The random choices
//! depend only on the [`Plan`]'s seed and process number, but the timing varies. Holders write
//! their fence to a [`Store`], even after a loss.

pub(crate) mod held;
mod holding;
mod plan;
mod process;
mod random;
mod rounds;
#[cfg(feature = "paused")]
pub mod simulation;
mod store;

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BootInstant, Clock, Locks, Result};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::history::journal::{Event, Journal};

use process::{Client, Process};

pub use plan::{Plan, Work};
pub use random::Random;
pub use store::{RemoteStore, Store};

const TASKS: u64 = 3;

/// Runs `plan` with clients that `open` connects, and returns after all holds have ended.
///
/// Retries `open` until the plan's time is over. Failed requests are only journaled: faults cause
/// most.
///
/// # Errors
/// - The backend rejected a request as unsupported or invalid.
/// - The store was unreachable.
/// - A task panicked.
///
/// # Cancel safety
/// Dropping the future stops the work. Unlike after a kill, the clients release their holds in the
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

/// Each round has its own seed, so its choices don't depend on earlier rounds.
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
