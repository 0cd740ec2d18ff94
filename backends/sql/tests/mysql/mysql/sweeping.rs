//! Unused names leave only the floor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{DistributedLock, Fence, ReleaseMode, SweepReport};
use lockwright_sql::Mysql;
use lockwright_testbed as testbed;
use sqlx::Executor;

use crate::kit::{
    LIMIT, claim, connect, grant, locking, name, server_and_client, session, wait_for_blocked,
};

async fn sweep(mysql: &Mysql, idle: Duration) -> u64 {
    let mut rows = 0;
    for _ in 0..10_000 {
        let SweepReport { rows: gone, more } = mysql.sweep(idle).await.unwrap();
        rows += gone;
        if !more {
            return rows;
        }
    }
    panic!("a sweep comes to an end");
}

fn rows(server: &testbed::MariaDb) -> u64 {
    server.sql("SELECT count(*) FROM lockwright_lease").unwrap().parse().unwrap()
}

fn an_hour_passes(server: &testbed::MariaDb) {
    server
        .sql(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET max_statement_time = 0; \
             UPDATE lockwright_lease SET updated = updated - 3600000000, expires = expires - 3600000000",
        )
        .unwrap();
}

/// Inserts the rows of `count` released names, with odd fences.
fn one_off_names(server: &testbed::MariaDb, count: usize) {
    // In parts: statements of the command line have a time limit.
    for from in (1..=count).step_by(20_000) {
        let to = count.min(from + 19_999);
        server
            .sql(&format!(
                "INSERT INTO lockwright_lease SELECT concat('orders/', lpad(seq, 9, '0')), NULL, '{{}}', \
                 'exclusive', 1700000000000000 + (seq * 7919) % 1000003, 1 + seq % 3, 1, 1, 1, \
                 NULL, '', 0 FROM seq_{from}_to_{to}"
            ))
            .unwrap();
    }
}

async fn one_off_names_go(count: usize) {
    // A million rows exceed the default memory of a test's server.
    let options = testbed::MariaDb::options();
    let server = options
        .set("innodb_buffer_pool_size", "512M")
        .set("innodb_log_file_size", "256M")
        .start()
        .unwrap();
    let mysql = connect(&server.url()).await;
    one_off_names(&server, count);
    // Fences ahead of the clock.
    let mut fences = Vec::new();
    for i in 0..20 {
        let mut held = claim(&format!("real/{i}"));
        held.fences = 1_000_000_000;
        let granted = grant(&mysql, &held).await;
        fences.push(granted.fence.get() + 999_999_999);
        if i % 2 == 0 {
            mysql.release(&held, ReleaseMode::Plain).await.unwrap();
        }
    }
    an_hour_passes(&server);
    let held = claim("held");
    let held_fence = grant(&mysql, &held).await.fence;
    assert_eq!(rows(&server), count as u64 + 21);

    let begun = std::time::Instant::now();
    let gone = sweep(&mysql, Duration::from_secs(600)).await;
    println!("{gone} rows in {:?}", begun.elapsed());
    assert_eq!(gone, count as u64 + 20);
    assert_eq!(rows(&server), 1, "what is held stays");
    assert_eq!(grant(&mysql, &held).await.fence, held_fence);

    for (i, last) in fences.into_iter().enumerate() {
        let fence = grant(&mysql, &claim(&format!("real/{i}"))).await.fence;
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
    let (server, mysql) = server_and_client().await;
    let held = claim("held");
    grant(&mysql, &held).await;
    let released = claim("released");
    grant(&mysql, &released).await;
    mysql.release(&released, ReleaseMode::Reconcile).await.unwrap();
    // A running statement may have missed the row's last change.
    assert_eq!(sweep(&mysql, Duration::ZERO).await, 0);
    server.sql("UPDATE lockwright_lease SET updated = updated - 1800000000").unwrap();
    assert_eq!(sweep(&mysql, Duration::from_secs(3600)).await, 0);
    assert_eq!(sweep(&mysql, Duration::from_secs(600)).await, 1);
    assert_eq!(mysql.inspect(&name("held")).await.unwrap().holders.len(), 1);
    assert_eq!(server.sql("SELECT count(*) FROM lockwright_tombstone").unwrap(), "1");
    server.sql("UPDATE lockwright_tombstone SET until_us = 1").unwrap();
    assert_eq!(sweep(&mysql, Duration::from_secs(600)).await, 1);
}

#[tokio::test]
async fn a_sweep_waits_for_nobody() {
    let (server, mysql) = server_and_client().await;
    one_off_names(&server, 10);
    let busy = "orders/000000003";
    let mut row = locking(&server, busy).await;
    assert_eq!(sweep(&mysql, Duration::ZERO).await, 9);
    row.execute("COMMIT").await.unwrap();
    assert_eq!(sweep(&mysql, Duration::ZERO).await, 1);
}

/// The claim's statement starts before the row is deleted, with the floor of that time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_starts_above_the_row_that_was_swept() {
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let mut before = claim("x");
    before.fences = 1_000_000_000;
    let last = grant(&mysql, &before).await.fence.get() + 999_999_999;
    mysql.release(&before, ReleaseMode::Plain).await.unwrap();

    let mut sweeper = session(&server).await;
    sweeper.execute("BEGIN; DELETE FROM lockwright_lease WHERE name = 'x'").await.unwrap();
    let asking = tokio::spawn({
        let mysql = Arc::clone(&mysql);
        async move { grant(&mysql, &claim("x")).await }
    });
    wait_for_blocked(&server, 1).await;
    sweeper.execute("COMMIT").await.unwrap();
    let fence = asking.await.unwrap().fence;
    assert!(fence > Fence::new(last), "it had {last}, and then got {fence}");
}

/// The row gets old enough after the floor was raised.
#[tokio::test]
async fn a_row_above_the_floor_stays() {
    let (server, mysql) = server_and_client().await;
    one_off_names(&server, 10);
    server
        .sql(
            "CREATE TRIGGER too_low BEFORE UPDATE ON lockwright_meta FOR EACH ROW \
             SET NEW.floor = 1",
        )
        .unwrap();
    assert_eq!(sweep(&mysql, Duration::ZERO).await, 0);
    server.sql("DROP TRIGGER too_low").unwrap();
    assert_eq!(sweep(&mysql, Duration::ZERO).await, 10);
}

/// No fence ever decreases. Each locker cycles through names, so there are always idle ones.
#[tokio::test(flavor = "multi_thread")]
async fn sweeping_and_locking_at_once() {
    const NAMES: usize = 16;
    let (server, mysql) = server_and_client().await;
    let mysql = Arc::new(mysql);
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let lockers: Vec<_> = (0..4)
        .map(|locker| {
            let (mysql, done) = (Arc::clone(&mysql), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last = [Fence::new(0); NAMES];
                let mut count = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut held = claim(&format!("x{locker}-{}", count % NAMES));
                    held.fences = 1_000_000;
                    let fence = grant(&mysql, &held).await.fence;
                    let last = &mut last[count % NAMES];
                    assert!(fence > *last, "after {last} it got {fence}");
                    *last = Fence::new(fence.get() + 999_999);
                    mysql.release(&held, ReleaseMode::Plain).await.unwrap();
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
        let (one, two) = tokio::join!(sweep(&mysql, Duration::ZERO), sweep(&mysql, Duration::ZERO));
        gone += one + two;
    }
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    for locker in lockers {
        assert!(locker.await.unwrap() > 0);
    }
    assert!(gone >= 50, "only {gone} rows were swept, which shows nothing");
}
