//! Tests of waiters behind dead, suspended or closed clients.

use std::future::Future;
use std::time::Duration;

use lockwright_core::Locks;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

use crate::test_helpers::{LIMIT, eventually};

/// A simulated process, which runs only during `block_on`.
#[derive(Debug)]
struct Process {
    runtime: Runtime,
    locks: Locks,
}

impl Process {
    fn start<F: Future<Output = Locks>>(connect: impl FnOnce() -> F) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let locks = runtime.block_on(connect());
        Self { runtime, locks }
    }
}

/// Kills the clients ahead of a live waiter if `are_killed`, else suspends them. Returns how long
/// the live waiter waited.
pub fn wait_behind_the_dead<F: Future<Output = Locks>>(
    connect: impl Fn() -> F,
    ttl: Duration,
    dead_waiters: usize,
    are_killed: bool,
) -> Duration {
    let holder = Process::start(&connect);
    let held = holder.runtime.block_on(holder.locks.mutex("x").ttl(ttl).acquire()).unwrap();
    let waiters: Vec<Process> = (0..dead_waiters).map(|_| Process::start(&connect)).collect();
    let live = Process::start(&connect);
    let mut waits: Vec<_> =
        waiters.iter().map(|waiter| Box::pin(waiter.locks.mutex("x").ttl(ttl).acquire())).collect();
    for (waiter, wait) in waiters.iter().zip(&mut waits) {
        let queued = async { timeout(ttl / 8, wait).await.map(drop) };
        waiter.runtime.block_on(queued).expect_err("it is held");
        // The holder renews only while its runtime runs.
        holder.runtime.block_on(async { sleep(ttl / 8).await });
    }
    held.check().expect("it is held");
    let begun = Instant::now();
    if are_killed {
        // Without their runtimes, the clients send no release, as if killed.
        waiters.into_iter().for_each(|waiter| waiter.runtime.shutdown_background());
        holder.runtime.shutdown_background();
    }
    let asking = async { timeout(LIMIT * 2, live.locks.mutex("x").ttl(ttl).acquire()).await };
    let next = live
        .runtime
        .block_on(asking)
        .expect("the lock is granted in time")
        .expect("the servers answer");
    let took = begun.elapsed();
    live.runtime.block_on(next.release()).expect("it is held");
    drop((held, waits));
    took
}

/// Tests that a guard is lost before the next grant if its runtime has ended or doesn't run.
pub fn guard_without_a_runtime_is_lost<F: Future<Output = Locks>>(
    connect: impl Fn() -> F,
    ttl: Duration,
) {
    for ends in [true, false] {
        let (holder, other) = (Process::start(&connect), Process::start(&connect));
        let held = holder.runtime.block_on(holder.locks.mutex("x").ttl(ttl).acquire()).unwrap();
        if ends {
            holder.runtime.shutdown_background();
        }
        let asking = async { timeout(LIMIT, other.locks.mutex("x").acquire()).await };
        let next = other
            .runtime
            .block_on(asking)
            .expect("the lock is granted in time")
            .expect("the servers answer");
        held.check().expect_err("the lost hold is still valid");
        other.runtime.block_on(next.release()).expect("it is held");
    }
}

/// Tests that a client closed just after `break_connection` leaves the queue.
pub async fn closed_client_is_granted_nothing<F: Future<Output = Locks>>(
    connect: impl Fn() -> F,
    other: &Locks,
    break_connection: impl Fn(),
) {
    let (ours, held) = (connect().await, other.mutex("x").acquire().await.unwrap());
    let waiting = tokio::spawn(ours.mutex("x").acquire());
    let look = || async { other.inspect("x").await.unwrap() };
    eventually(|| async { (look().await.waiters == Some(1)).then_some(()) }).await;
    break_connection();
    timeout(LIMIT, ours.close()).await.expect("closing completes");
    held.release().await.unwrap();
    let refused = timeout(LIMIT, waiting).await.expect("the waiter ends in time").unwrap();
    refused.expect_err("a closed client was granted the lock");
    eventually(|| async { look().await.holders.is_empty().then_some(()) }).await;
}
