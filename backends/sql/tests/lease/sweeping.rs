use std::sync::atomic::{AtomicBool, Ordering};

use super::server::*;
use super::{UNTIL, insert_names};
use crate::support::*;

pub(super) async fn sweep(backend: &Backend, idle: Duration) -> u64 {
    let mut rows = 0;
    for _ in 0..10_000 {
        let SweepReport { rows: gone, more } = backend.sweep(idle).await.unwrap();
        rows += gone;
        if !more {
            return rows;
        }
    }
    panic!("a sweep comes to an end");
}

fn rows(server: &Server) -> usize {
    count(server, "SELECT count(*) FROM lockwright_lease")
}

pub(super) fn an_hour_passes(server: &Server) {
    // At higher levels, MySQL locks the gaps between the rows, which blocks inserts.
    let hour = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE lockwright_lease \
                SET updated = updated - 3600000000, expires = expires - 3600000000";
    server.sql(hour).unwrap();
}

pub(super) fn one_off_names(server: &Server, count: usize) {
    server.sql(&insert_names(count)).unwrap();
}

#[tokio::test]
async fn one_off_names_leave_a_small_table() {
    const COUNT: usize = 20_000;

    let (server, backend) = start().await;
    one_off_names(&server, COUNT);
    // A new fence is at least the server's time in µs. Each grant reserves a billion fences, so its
    // last fence is ahead of the time. After the sweep, only the floor keeps later fences higher.
    let mut fences = Vec::new();
    for i in 0..20 {
        let mut held = claim(&format!("real/{i}"));
        held.fences = 1_000_000_000;
        let granted = grant(&backend, &held).await;
        fences.push(granted.fence.get() + 999_999_999);
        if i % 2 == 0 {
            backend.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    an_hour_passes(&server);
    let held = claim("held");
    let held_fence = grant(&backend, &held).await.fence;
    assert_eq!(rows(&server), COUNT + 21);

    assert_eq!(sweep(&backend, Duration::from_secs(600)).await, COUNT as u64 + 20);
    assert_eq!(rows(&server), 1, "what is held stays");
    assert_eq!(grant(&backend, &held).await.fence, held_fence);

    for (i, last) in fences.into_iter().enumerate() {
        let fence = grant(&backend, &claim(&format!("real/{i}"))).await.fence;
        assert!(fence > Fence::new(last), "real/{i} had {last}, and then got {fence}");
    }
}

#[tokio::test]
async fn young_held_and_awaited_rows_stay() {
    let (server, backend) = start().await;
    hold(&backend, "held").await;
    let released = hold(&backend, "released").await;
    backend.release(&released, ReleaseMode::Reconcile).await.unwrap();
    // A sweep keeps a row that was just changed, because a running statement may not have seen the
    // change.
    assert_eq!(sweep(&backend, Duration::ZERO).await, 0);
    server.sql("UPDATE lockwright_lease SET updated = updated - 1800000000").unwrap();
    assert_eq!(sweep(&backend, Duration::from_secs(3600)).await, 0);
    assert_eq!(sweep(&backend, Duration::from_secs(600)).await, 1);
    assert_eq!(backend.inspect(&name("held")).await.unwrap().holders.len(), 1);
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_tombstone").unwrap(), "1");
    server.sql(&format!("UPDATE lockwright_tombstone SET {UNTIL} = 1")).unwrap();
    assert_eq!(sweep(&backend, Duration::from_secs(600)).await, 1);
}

#[tokio::test]
async fn sweeps_and_listings_wait_for_nobody() {
    let (server, backend) = start().await;
    one_off_names(&server, 10);
    let busy = server.sql("SELECT min(name) FROM lockwright_lease").unwrap();
    let mut row = lock_lease(&server, &busy).await;
    assert!(backend.inspect(&name(&busy)).await.unwrap().holders.is_empty());
    assert!(backend.list("", None).await.unwrap().names.is_empty());
    assert_eq!(sweep(&backend, Duration::ZERO).await, 9);
    row.execute("COMMIT").await.unwrap();
    assert_eq!(sweep(&backend, Duration::ZERO).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_starts_above_the_row_that_was_swept() {
    let (server, backend) = start().await;
    // `newcomer` had no grant of the name, so it doesn't send `acquire_free`.
    let newcomer = Arc::new(connect(&server.url()).await);
    let mut before = claim("x");
    before.fences = 1_000_000_000;
    let last = grant(&backend, &before).await.fence.get() + 999_999_999;
    backend.release(&before, ReleaseMode::Plain).await.unwrap();

    let mut sweeper = session(&server).await;
    sweeper.execute("BEGIN; DELETE FROM lockwright_lease WHERE name = 'x'").await.unwrap();
    let asking = acquiring(&newcomer, &claim("x"), Wait::No);
    wait_for_blocked(&server, 1).await;
    sweeper.execute("COMMIT").await.unwrap();
    let fence = granted(asking).await.fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

/// The fences of a name must grow, although sweeps delete its row between grants. Each task cycles
/// through its names, so the sweep always finds unused names.
#[tokio::test(flavor = "multi_thread")]
async fn sweeping_and_locking_at_once() {
    const NAMES: usize = 16;
    let (server, backend) = start().await;
    let done = Arc::<AtomicBool>::default();
    let lockers: Vec<_> = (0..4)
        .map(|locker| {
            let (backend, done) = (Arc::clone(&backend), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last = [Fence::new(0); NAMES];
                let mut count = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut held = claim(&format!("x{locker}-{}", count % NAMES));
                    held.fences = 1_000_000;
                    let fence = grant(&backend, &held).await.fence;
                    let last = &mut last[count % NAMES];
                    assert!(fence > *last, "after {last} it got {fence}");
                    *last = Fence::new(fence.get() + 999_999);
                    backend.release(&held, ReleaseMode::Plain).await.unwrap();
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
            tokio::join!(sweep(&backend, Duration::ZERO), sweep(&backend, Duration::ZERO));
        gone += one + two;
    }
    done.store(true, Ordering::Relaxed);
    for locker in lockers {
        assert!(locker.await.unwrap() > 0);
    }
    assert!(gone >= 50, "only {gone} rows were swept, which shows nothing");
}

/// A name without a row gets a fence above the floor, so a sweep may delete only rows with fences
/// up to its new floor. The row `young` becomes old after the sweep has chosen this floor, so the
/// sweep must keep the row.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_above_the_floor_stays() {
    let (server, backend) = start().await;
    one_off_names(&server, 10);
    let mut young = claim("young");
    young.fences = 1_000_000_000;
    let last = grant(&backend, &young).await.fence.get() + 999_999_999;
    backend.release(&young, ReleaseMode::Plain).await.unwrap();

    let mut meta = session(&server).await;
    meta.execute("BEGIN; SELECT floor FROM lockwright_meta FOR UPDATE").await.unwrap();
    let sweeping = tokio::spawn({
        let backend = Arc::clone(&backend);
        async move { backend.sweep(Duration::ZERO).await.unwrap().rows }
    });
    wait_for_blocked(&server, 1).await;
    an_hour_passes(&server);
    meta.execute("COMMIT").await.unwrap();
    assert_eq!(sweeping.await.unwrap(), 10, "the young one stays for the next sweep");
    let fence = grant(&backend, &claim("young")).await.fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

/// A late acquire that began before the reconciliation, and waits for the name's row, can see the
/// tombstone only in that row.
#[tokio::test]
async fn row_with_a_fresh_tombstone_is_kept() {
    let (server, backend) = start().await;
    let held = claim_for("x", Duration::from_secs(2 * 60 * 60));
    grant(&backend, &held).await;
    an_hour_passes(&server);
    break_x(&backend, held.token, BreakMode::Now).await.unwrap();
    sweep(&backend, Duration::ZERO).await;
    assert_eq!(rows(&server), 1, "after a break");
    an_hour_passes(&server);
    backend.release(&claim("x"), ReleaseMode::Reconcile).await.unwrap();
    sweep(&backend, Duration::ZERO).await;
    assert_eq!(rows(&server), 1, "after a release");
}
