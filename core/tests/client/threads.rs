//! Races on real threads and the real clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockwright_core::{Locks, Owner};
use lockwright_memory::Memory;

use crate::support::secs;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_overlaps_and_nothing_is_left() {
    const TASKS: u64 = 16;
    const TURNS: u64 = 400;
    let memory = Memory::new();
    let clients: Vec<Locks> =
        (0..3).map(|_| Locks::builder(memory.clone()).build().unwrap()).collect();
    let (inside, entries) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let locks = clients[task as usize % clients.len()].clone();
        let (inside, entries, highest) = (inside.clone(), entries.clone(), highest.clone());
        tasks.spawn(async move {
            for turn in 0..TURNS {
                let choice = (task * 31 + turn * 17) % 8;
                if choice == 0 {
                    let acquire = locks.mutex("x").acquire();
                    let _ = tokio::time::timeout(Duration::from_micros(turn % 200), acquire).await;
                    continue;
                }
                let owner = Owner::new();
                let guard = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                assert!(highest.swap(guard.fence().get(), Ordering::SeqCst) < guard.fence().get());
                entries.fetch_add(1, Ordering::SeqCst);
                if choice == 1 {
                    let again = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    assert_eq!(again.fence(), guard.fence());
                }
                if choice == 2 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                if choice % 2 == 0 {
                    drop(guard);
                } else {
                    guard.release().await.unwrap();
                }
            }
        });
    }
    while let Some(task) = tokio::time::timeout(secs(120), tasks.join_next()).await.unwrap() {
        task.unwrap();
    }
    assert_eq!(entries.load(Ordering::SeqCst), TASKS * TURNS * 7 / 8);
    for locks in &clients {
        locks.close().await;
        assert_eq!(locks.metrics().held, 0);
    }
    assert!(memory.is_empty());
}
