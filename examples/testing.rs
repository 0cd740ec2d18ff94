//! Tests of a busy lock, a loss during the work, and an unreachable server, without waiting.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use lockwright::operator::{BreakMode, BreakTarget};
use lockwright::{Clock, Locks, Memory, Result};
use lockwright_conformance::faults::{Fate, Faulty, Op};

/// The function under test.
async fn import(locks: &Locks) -> Result<&'static str> {
    let request = locks.mutex("import").wait_for(Duration::from_secs(60));
    request.with(async |_guard| tokio::time::sleep(Duration::from_secs(600)).await).await?;
    Ok("imported")
}

// A test has `#[tokio::test(start_paused = true)]`.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<()> {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let server = Faulty::new(Arc::new(memory.clone()), clock.clone());
    let locks = Locks::builder(server.clone()).clock(clock.clone()).build()?;
    let operator = Locks::builder(memory).clock(clock).build()?;

    let other = operator.mutex("import").acquire().await?;
    println!("busy: {}", import(&locks).await.unwrap_err());
    other.release().await?;

    let broken = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        operator.break_lock("import", BreakTarget::Any, BreakMode::Now, "test").await
    };
    let (lost, _) = tokio::join!(import(&locks), broken);
    println!("broken: {}", lost.unwrap_err());

    server.always(Op::Acquire, Fate::UNAVAILABLE);
    println!("unreachable: {}", import(&locks).await.unwrap_err());
    Ok(())
}
