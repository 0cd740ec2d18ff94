//! An election among three processes: the leader is killed, and another takes over.
//!
//! ```text
//! cargo run --example leader [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use lockwright::Locks;
use support::{Processes, Result, told};

const PROCESSES: usize = 3;
const NAME: &str = "example/scheduler";
const TTL: Duration = Duration::from_secs(4);

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("LEADER_CANDIDATE") {
        Ok(value) => runtime.block_on(candidate(&value)),
        Err(_) => election(&runtime),
    }
}

async fn candidate(value: &str) -> Result<()> {
    let locks = lockwright::connect(&told("LEADER_URL")?).await?;
    let leadership = locks.election(NAME).campaign(value).ttl(TTL).acquire().await?;
    println!("{}", leadership.fence());
    Ok(leadership.run(std::future::pending::<()>()).await?)
}

fn election(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let (_folder, url) = support::place()?;
    let locks: Locks = runtime.block_on(lockwright::connect(&url))?;
    let mut candidates = Processes::new();
    for number in 0..PROCESSES {
        let value = format!("candidate-{number}");
        candidates.start(&[("LEADER_CANDIDATE", &value), ("LEADER_URL", &url)])?;
    }

    let (first, first_fence) = winner(runtime, &locks, &candidates)?;
    let killed = Instant::now();
    candidates.kill(first)?;
    println!("killed candidate-{first}");

    let (second, second_fence) = winner(runtime, &locks, &candidates)?;
    println!("that was {:.2} s after the kill; the TTL is {TTL:?}", killed.elapsed().as_secs_f64());
    if second == first || second_fence <= first_fence {
        return Err("another process should lead, with a larger fence".into());
    }
    println!("another process leads");
    Ok(())
}

fn winner(
    runtime: &tokio::runtime::Runtime,
    locks: &Locks,
    candidates: &Processes,
) -> Result<(usize, u64)> {
    let (number, fence) = candidates.next()?;
    let fence = fence.parse()?;
    let leader = runtime.block_on(locks.election(NAME).leader())?;
    let value = leader.and_then(|leader| leader.value);
    println!("{} leads, with fence {fence}", value.as_deref().unwrap_or("nobody"));
    match value {
        Some(value) if *value == *format!("candidate-{number}") => Ok((number, fence)),
        _ => Err(format!("candidate-{number} should be seen to lead").into()),
    }
}
