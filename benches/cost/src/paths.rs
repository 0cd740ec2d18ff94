use std::hint::black_box;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Guard, Locks, Owner};
use lockwright_memory::Memory;
use tokio::runtime::Runtime;

use crate::by_future::ByFuture;
use crate::counted_by_callgrind as counted;

pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// Returns the number of executions.
    pub(crate) prepare: fn(&Runtime) -> u64,
}

pub(crate) const ALL: &[Path] = &[
    Path { name: "acquire + release", prepare: acquire_and_release },
    Path { name: "acquire + release, fixed", prepare: fixed },
    Path { name: "acquire + release, a backend that answers by a future", prepare: by_future },
    Path { name: "acquire + release among 1,000 holds", prepare: among_many },
    Path { name: "try_acquire on a busy name", prepare: busy },
    Path { name: "re-entry", prepare: enter_again },
    Path { name: "check", prepare: check },
    Path { name: "a turn, of 8 contending tasks", prepare: hand_over },
    Path { name: "a renewal, of 1,000 holds", prepare: renewal },
];

/// Enough to average out work that only some executions do.
const TIMES: u64 = 2_000;

const NAME: &str = "orders/42";

fn client(runtime: &Runtime, backend: impl DistributedLock) -> Locks {
    let builder = Locks::builder(backend).runtime(runtime.handle().clone());
    // The seed makes the times of renewals deterministic.
    builder.jitter_seed(42).build().expect("the settings are the default's")
}

fn memory(runtime: &Runtime) -> Locks {
    client(runtime, Memory::new())
}

async fn take(locks: &Locks) {
    let guard = locks.mutex(black_box(NAME)).acquire().await.unwrap();
    black_box(&guard);
    guard.release().await.unwrap();
}

/// Counts pairs of acquire and release, after an uncounted run in which tables and pools grow.
fn taken(runtime: &Runtime, locks: &Locks) -> u64 {
    let path = async || {
        for _ in 0..TIMES {
            take(locks).await;
        }
        TIMES
    };
    runtime.block_on(path());
    counted(runtime, Box::pin(path()))
}

fn acquire_and_release(runtime: &Runtime) -> u64 {
    taken(runtime, &memory(runtime))
}

fn by_future(runtime: &Runtime) -> u64 {
    taken(runtime, &client(runtime, ByFuture::default()))
}

fn among_many(runtime: &Runtime) -> u64 {
    let locks = memory(runtime);
    let held = runtime.block_on(hold(&locks, 1_000));
    let times = taken(runtime, &locks);
    drop(held);
    times
}

async fn hold(locks: &Locks, number: usize) -> Vec<Guard> {
    let mut held = Vec::with_capacity(number);
    for i in 0..number {
        held.push(locks.mutex(format!("held/{i}")).acquire().await.unwrap());
    }
    held
}

fn fixed(runtime: &Runtime) -> u64 {
    let locks = memory(runtime);
    let path = async || {
        for _ in 0..TIMES {
            let guard = locks.mutex(black_box(NAME)).fixed().acquire().await.unwrap();
            guard.release().await.unwrap();
        }
        TIMES
    };
    runtime.block_on(path());
    counted(runtime, Box::pin(path()))
}

fn busy(runtime: &Runtime) -> u64 {
    // Another client holds the lock, so that the backend, not the local queue, rejects the request.
    let backend = Memory::new();
    let (holder, locks) = (client(runtime, backend.clone()), client(runtime, backend));
    let held = runtime.block_on(holder.mutex(NAME).acquire()).unwrap();
    let path = async || {
        for _ in 0..TIMES {
            assert!(locks.mutex(black_box(NAME)).try_acquire().await.unwrap().is_none());
        }
        TIMES
    };
    runtime.block_on(path());
    let times = counted(runtime, Box::pin(path()));
    drop(held);
    times
}

fn enter_again(runtime: &Runtime) -> u64 {
    let locks = memory(runtime);
    let owner = Owner::new();
    let held = runtime.block_on(locks.mutex(NAME).reentrant(&owner).acquire()).unwrap();
    let path = async || {
        for _ in 0..TIMES {
            let guard = locks.mutex(black_box(NAME)).reentrant(&owner).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
        TIMES
    };
    runtime.block_on(path());
    let times = counted(runtime, Box::pin(path()));
    drop(held);
    times
}

fn check(runtime: &Runtime) -> u64 {
    let locks = memory(runtime);
    let guard = runtime.block_on(locks.mutex(NAME).acquire()).unwrap();
    let path = async || {
        for _ in 0..TIMES {
            black_box(&guard).check().unwrap();
        }
        TIMES
    };
    counted(runtime, Box::pin(path()))
}

fn hand_over(runtime: &Runtime) -> u64 {
    const TASKS: u64 = 8;
    let locks = memory(runtime);
    let path = async || {
        let tasks = (0..TASKS).map(|_| {
            let locks = locks.clone();
            tokio::spawn(async move {
                for _ in 0..TIMES / TASKS {
                    let guard = locks.mutex(black_box(NAME)).acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        TIMES
    };
    runtime.block_on(path());
    let before = locks.metrics().waited;
    let times = counted(runtime, Box::pin(path()));
    let waited = locks.metrics().waited - before;
    assert!(waited + TASKS >= times, "only {waited} of {times} waited");
    times
}

/// Counts renewals on tokio's paused clock, which advances when the runtime is idle.
fn renewal(runtime: &Runtime) -> u64 {
    // Random tokens determine renewal times and batches: one client's cost varies by up to 7 %.
    const CLIENTS: usize = 32;
    let clients = runtime.block_on(async {
        tokio::time::pause();
        let clock = Clock::tokio();
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let memory = Memory::with_clock(clock.clone());
            let locks = Locks::builder(memory).clock(clock.clone()).build().unwrap();
            clients.push((hold(&locks, 1_000).await, locks));
        }
        clients
    });
    let renewals = || clients.iter().map(|(_, locks)| locks.metrics().renewals).sum::<u64>();
    let path = async |time| {
        let before = renewals();
        tokio::time::sleep(time).await;
        renewals() - before
    };
    // After a minute, jitter has spread the renewal times.
    runtime.block_on(path(Duration::from_secs(60)));
    let times = counted(runtime, Box::pin(path(Duration::from_secs(60))));
    assert!(times >= 4_000 * CLIENTS as u64, "only {times} renewals in a minute");
    let held = || clients.iter().flat_map(|(held, _)| held);
    assert!(held().all(|guard| guard.check().is_ok()));
    times
}
