//! Unused names leave only the floor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{DistributedLock, Fence, ReleaseMode, SweepReport};
use lockwright_sql::Postgres;
use lockwright_testbed as testbed;
use sqlx::Executor;

use crate::kit::{
    LIMIT, claim, grant, locking, name, server_and_client, session, wait_for_blocked,
};

async fn sweep(postgres: &Postgres, idle: Duration) -> u64 {
    let mut rows = 0;
    for _ in 0..10_000 {
        let SweepReport { rows: gone, more } = postgres.sweep(idle).await.unwrap();
        rows += gone;
        if !more {
            return rows;
        }
    }
    panic!("a sweep comes to an end");
}

fn rows(server: &testbed::Postgres) -> u64 {
    server.sql("SELECT count(*) FROM lockwright_lease").unwrap().parse().unwrap()
}

fn an_hour_passes(server: &testbed::Postgres) {
    server
        .sql(
            "UPDATE lockwright_lease SET updated = updated - 3600000000, \
             expires = expires - 3600000000",
        )
        .unwrap();
}

/// Inserts the rows of `count` released names, with odd fences.
fn one_off_names(server: &testbed::Postgres, count: usize) {
    server
        .sql(&format!(
            "INSERT INTO lockwright_lease SELECT 'orders/' || md5(i::text), NULL, '{{}}', \
             'exclusive', 1700000000000000 + (i::bigint * 7919) % 1000003, 1 + i % 3, 1, 1, 1, NULL, 0, '' \
             FROM generate_series(1, {count}) AS i"
        ))
        .unwrap();
}

async fn one_off_names_go(count: usize) {
    let (server, postgres) = server_and_client().await;
    one_off_names(&server, count);
    // Fences ahead of the clock.
    let mut fences = Vec::new();
    for i in 0..20 {
        let mut held = claim(&format!("real/{i}"));
        held.fences = 1_000_000_000;
        let granted = grant(&postgres, &held).await;
        fences.push(granted.fence.get() + 999_999_999);
        if i % 2 == 0 {
            postgres.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    an_hour_passes(&server);
    let held = claim("held");
    let held_fence = grant(&postgres, &held).await.fence;
    assert_eq!(rows(&server), count as u64 + 21);

    let begun = std::time::Instant::now();
    let gone = sweep(&postgres, Duration::from_secs(600)).await;
    println!("{gone} rows in {:?}", begun.elapsed());
    assert_eq!(gone, count as u64 + 20);
    assert_eq!(rows(&server), 1, "what is held stays");
    assert_eq!(grant(&postgres, &held).await.fence, held_fence);

    for (i, last) in fences.into_iter().enumerate() {
        let fence = grant(&postgres, &claim(&format!("real/{i}"))).await.fence;
        assert!(fence > Fence::new(last), "real/{i} had {last}, and then got {fence}");
    }
}

#[tokio::test]
async fn one_off_names_leave_a_small_table() {
    one_off_names_go(20_000).await;
}

#[tokio::test]
#[ignore = "takes a minute"]
async fn a_million_one_off_names_leave_a_small_table() {
    one_off_names_go(1_000_000).await;
}

#[tokio::test]
async fn what_is_young_held_or_waited_for_stays() {
    let (server, postgres) = server_and_client().await;
    let held = claim("held");
    grant(&postgres, &held).await;
    let released = claim("released");
    grant(&postgres, &released).await;
    postgres.release(&released, ReleaseMode::Reconcile).await.unwrap();
    // A running statement may have missed the row's last change.
    assert_eq!(sweep(&postgres, Duration::ZERO).await, 0);
    server.sql("UPDATE lockwright_lease SET updated = updated - 1800000000").unwrap();
    assert_eq!(sweep(&postgres, Duration::from_secs(3600)).await, 0);
    assert_eq!(sweep(&postgres, Duration::from_secs(600)).await, 1);
    assert_eq!(postgres.inspect(&name("held")).await.unwrap().holders.len(), 1);
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_tombstone").unwrap(), "1");
    server.sql("UPDATE lockwright_tombstone SET until = 1").unwrap();
    assert_eq!(sweep(&postgres, Duration::from_secs(600)).await, 1);
}

#[tokio::test]
async fn a_sweep_waits_for_nobody() {
    let (server, postgres) = server_and_client().await;
    one_off_names(&server, 10);
    let busy = format!("orders/{}", server.sql("SELECT md5('3')").unwrap());
    let mut row = locking(&server, &busy).await;
    assert_eq!(sweep(&postgres, Duration::ZERO).await, 9);
    row.execute("COMMIT").await.unwrap();
    assert_eq!(sweep(&postgres, Duration::ZERO).await, 1);
}

/// The claim's statement starts before the row is deleted, with the floor of that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_starts_above_the_row_that_was_swept() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let mut before = claim("x");
    before.fences = 1_000_000_000;
    let last = grant(&postgres, &before).await.fence.get() + 999_999_999;
    postgres.release(&before, ReleaseMode::Plain).await.unwrap();

    let mut sweeper = session(&server).await;
    sweeper.execute("BEGIN; DELETE FROM lockwright_lease WHERE name = 'x'").await.unwrap();
    let asking = tokio::spawn({
        let postgres = Arc::clone(&postgres);
        async move { grant(&postgres, &claim("x")).await }
    });
    wait_for_blocked(&server, 1).await;
    sweeper.execute("COMMIT").await.unwrap();
    let fence = asking.await.unwrap().fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

/// The row gets old enough after the floor was raised.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_above_the_floor_stays() {
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    one_off_names(&server, 10);
    let mut young = claim("young");
    young.fences = 1_000_000_000;
    let last = grant(&postgres, &young).await.fence.get() + 999_999_999;
    postgres.release(&young, ReleaseMode::Plain).await.unwrap();

    let mut meta = session(&server).await;
    meta.execute("BEGIN; SELECT floor FROM lockwright_meta FOR UPDATE").await.unwrap();
    let sweeping = tokio::spawn({
        let postgres = Arc::clone(&postgres);
        async move { postgres.sweep(Duration::ZERO).await.unwrap().rows }
    });
    wait_for_blocked(&server, 1).await;
    an_hour_passes(&server);
    meta.execute("COMMIT").await.unwrap();
    assert_eq!(sweeping.await.unwrap(), 10, "the young one stays for the next sweep");
    let fence = grant(&postgres, &claim("young")).await.fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

/// No fence ever decreases. Each locker cycles through names, so there are always idle ones.
#[tokio::test(flavor = "multi_thread")]
async fn sweeping_and_locking_at_once() {
    const NAMES: usize = 16;
    let (server, postgres) = server_and_client().await;
    let postgres = Arc::new(postgres);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let lockers: Vec<_> = (0..4)
        .map(|locker| {
            let (postgres, done) = (Arc::clone(&postgres), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last = [Fence::new(0); NAMES];
                let mut count = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut held = claim(&format!("x{locker}-{}", count % NAMES));
                    held.fences = 1_000_000;
                    let fence = grant(&postgres, &held).await.fence;
                    let last = &mut last[count % NAMES];
                    assert!(fence > *last, "after {last} it got {fence}");
                    *last = Fence::new(fence.get() + 999_999);
                    postgres.release(&held, ReleaseMode::Plain).await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut gone = 0;
    let began = Instant::now();
    while gone < 50 && began.elapsed() < LIMIT {
        an_hour_passes(&server);
        let (one, two) =
            tokio::join!(sweep(&postgres, Duration::ZERO), sweep(&postgres, Duration::ZERO));
        gone += one + two;
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    for locker in lockers {
        assert!(locker.await.unwrap() > 0);
    }
    assert!(gone >= 50, "only {gone} rows were swept, which shows nothing");
}
