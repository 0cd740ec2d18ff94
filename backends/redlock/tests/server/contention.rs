//! Several clients want the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lockwright_core::Locks;

use crate::kit::{Five, LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn split_votes_end() {
    const CONTENDERS: usize = 8;
    const TURNS: usize = 5;
    let five = Five::start().await;
    let (inside, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut contenders = Vec::new();
    for _ in 0..CONTENDERS {
        // Each with connections of its own, as in so many processes.
        let locks = Locks::builder(five.connect().await).build().unwrap();
        let (inside, highest) = (Arc::clone(&inside), Arc::clone(&highest));
        contenders.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = locks.mutex("x").wait_for(LIMIT).acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                let fence = guard.fence().get();
                let before = highest.swap(fence, Ordering::SeqCst);
                assert!(fence > before, "{fence} after {before}");
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
            locks.close().await;
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    five.nothing_is_left(0..5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_who_waits() {
    let five = Five::start().await;
    let holder = Locks::builder(five.connect().await).build().unwrap();
    let waiter = Locks::builder(five.connect().await).build().unwrap();
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let guard = holder.mutex("x").acquire().await.unwrap();
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move {
                let guard = waiter.mutex("x").wait_for(LIMIT).acquire().await.unwrap();
                let granted = std::time::Instant::now();
                guard.release().await.unwrap();
                granted
            }
        });
        // Not in the rhythm of the polls.
        tokio::time::sleep(Duration::from_millis(110)).await;
        let released = std::time::Instant::now();
        guard.release().await.unwrap();
        quickest = quickest.min(waiting.await.unwrap() - released);
    }
    assert!(quickest < Duration::from_millis(200), "it only polls: {quickest:?}");
}
