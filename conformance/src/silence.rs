//! Tests in which a client's open connections lose all data without an error.

use std::time::Duration;

use lockwright_core::Locks;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const BOUND: Duration = Duration::from_secs(2);

/// TTLs in seconds. A request's time limit depends on the TTL.
const TTLS: [u64; 5] = [1, 2, 3, 5, 30];

/// Tests that a client acquires a free lock within 2 s after `silence_present`.
pub async fn free_locks_are_acquired(
    connect: impl AsyncFn() -> Locks,
    silence_present: impl Fn(),
    label: &str,
) {
    for ttl in TTLS {
        let locks = connect().await;
        let name = format!("{label} {ttl}");
        let request = || locks.mutex(&name).ttl(Duration::from_secs(ttl)).wait_for(5 * BOUND);
        request().acquire().await.unwrap().release().await.unwrap();
        silence_present();
        let begun = Instant::now();
        let guard = request().acquire().await.unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
        assert!(begun.elapsed() < BOUND, "late: {ttl} s: {:?}", begun.elapsed());
        drop(guard);
        locks.close().await;
    }
}

/// Tests that a hold is renewed after `silence_present`. If `fails`, an earlier renewal must have
/// failed.
pub async fn holds_are_renewed(
    connect: impl AsyncFn() -> Locks,
    silence_present: impl Fn(),
    label: &str,
    fails: bool,
) {
    let mut holds = Vec::new();
    for ttl in TTLS {
        let locks = connect().await;
        let request = locks.mutex(format!("{label} {ttl}")).ttl(Duration::from_secs(ttl));
        let guard = request.acquire().await.unwrap();
        holds.push((ttl, locks, guard));
    }
    silence_present();
    let mut tasks = JoinSet::new();
    for (ttl, locks, guard) in holds {
        tasks.spawn(async move {
            let renewed = locks.metrics().renewals;
            while locks.metrics().renewals == renewed {
                guard.check().unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
                sleep(Duration::from_millis(5)).await;
            }
            let failed = locks.metrics().renewals_failed;
            assert!(!fails || failed > 0, "{ttl} s: nothing was silent");
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
}
