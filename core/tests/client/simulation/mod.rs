//! Tests of clients on random schedules, on a clock that the test moves. Each seed is one schedule.
//! Requests and events fail, machines are suspended, holds are broken or ended, and clients are
//! closed.
//!
//! Each schedule checks exclusion among valid holds, growing fences, and no grant after `close()`.
//! Each request must end, and the server must be empty at the end.
//!
//! `LOCKWRIGHT_SEED=7` runs one schedule, and `LOCKWRIGHT_SEEDS=10000` runs 10,000.

mod chance;
mod checks;
mod holders;
mod link;
mod meddle;
mod server;
mod work;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockwright_conformance::test_helpers::seeds;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::world::{Plan, Seen, World};
use crate::support::{secs, settle_down};

const SEEDS: u64 = 300;

const TASKS: usize = 8;
/// The number of steps of each task in a round, before a check of the server.
const STEPS: usize = 4;
const ROUNDS: usize = 5;

async fn schedule(seed: u64) -> Arc<Seen> {
    let world = Arc::new(World::new(Plan::of(seed)));
    let rounds = async {
        for _ in 0..ROUNDS {
            timeout(secs(100_000), round(&world)).await.expect("each request ends");
            world.check_between_rounds().await;
        }
    };
    tokio::select! {
        () = rounds => {}
        () = world.meddle() => unreachable!("it goes on until it is dropped"),
    }
    world.check_the_end().await;
    Arc::clone(&world.seen)
}

async fn round(world: &Arc<World>) {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let world = Arc::clone(world);
        tasks.spawn(async move {
            for _ in 0..STEPS {
                world.one_step().await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}

fn run(seed: u64) -> Arc<Seen> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let outcome = std::panic::catch_unwind(|| runtime.block_on(schedule(seed)));
    let Ok(seen) = outcome else {
        panic!("LOCKWRIGHT_SEED={seed} shows the failure above; {:?}", Plan::of(seed))
    };
    runtime.block_on(settle_down());
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "tasks are left, seed {seed}");
    seen
}

#[test]
fn clients_keep_their_promises_on_random_schedules() {
    let (total, seeds) = (Seen::default(), seeds(SEEDS));
    let several = seeds.end - seeds.start >= SEEDS;
    for seed in seeds {
        let seen = run(seed);
        for (sum, seen) in total.all().into_iter().zip(seen.all()) {
            sum.fetch_add(seen.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }
    println!("{total:?}");
    let is_seen = |counter: &AtomicU64| counter.load(Ordering::SeqCst) > 0;
    assert!(!several || total.all().into_iter().all(is_seen), "{total:?}");
}
