//! Waits, and the state of the transaction afterwards.

use std::time::{Duration, Instant};

use lockwright_core::ErrorKind;
use lockwright_sql::postgres::lock_in_transaction;
use lockwright_sql::transaction::Wait;
use sqlx::{Connection, Executor, PgConnection};

use super::{advisory, sell, setting, shop, stock, waiting};
use crate::kit::{BRIEFLY, PATIENCE, busy, locked, refused, until};

#[tokio::test]
async fn a_waiter_gets_it_with_the_commit_and_sees_what_was_done() {
    let (server, pool) = shop().await;
    for wait in [Wait::NoLimit, Wait::For(PATIENCE)] {
        let mut holder = pool.begin().await.unwrap();
        // The previous round's waiter may still be rolling back.
        locked(lock_in_transaction(&mut holder, "a", Wait::For(PATIENCE)).await);
        let before = stock(&mut holder).await;
        let mut waiter = pool.begin().await.unwrap();
        let waiter = tokio::spawn(async move {
            locked(lock_in_transaction(&mut waiter, "a", wait).await);
            let left = stock(&mut waiter).await;
            waiter.commit().await.unwrap();
            left
        });
        waiting(&server, 1).await;
        sell(&mut holder).await;
        holder.commit().await.unwrap();
        assert_eq!(waiter.await.unwrap(), before - 1);
    }
}

#[tokio::test]
async fn a_wait_can_be_longer_than_one_statement_of_it() {
    let (_server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    let began = Instant::now();
    let limit = Duration::from_millis(5_500);
    busy(lock_in_transaction(&mut tx, "a", Wait::For(limit)).await);
    assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
}

/// Unchanged: its work, its savepoints, its `lock_timeout`, and the session's.
#[tokio::test]
async fn after_each_outcome_the_transaction_is_as_it_was() {
    let (server, pool) = shop().await;
    for (case, wait) in [
        ("taken", Wait::No),
        ("taken", BRIEFLY),
        ("free", Wait::NoLimit),
        ("released", Wait::NoLimit),
    ] {
        let mut holder = pool.begin().await.unwrap();
        if case != "free" {
            locked(lock_in_transaction(&mut holder, "a", Wait::For(PATIENCE)).await);
        }
        let mut holder = Some(holder);
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        connection.execute("SET lock_timeout = '11s'").await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        tx.execute("SET LOCAL lock_timeout = '7s'").await.unwrap();
        let before = stock(&mut tx).await;
        tx.execute("SAVEPOINT lockwright").await.unwrap();
        sell(&mut tx).await;

        let began = Instant::now();
        let (answer, ()) = tokio::join!(lock_in_transaction(&mut tx, "a", wait), async {
            if case == "released" {
                waiting(&server, 1).await;
                holder.take().unwrap().commit().await.unwrap();
            }
        });
        assert_eq!(answer.unwrap().is_locked(), case != "taken");
        if let Some(holder) = holder {
            holder.rollback().await.unwrap();
        }
        if let Wait::For(limit) = wait {
            assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
        }

        assert_eq!(setting(&mut tx, "lock_timeout").await, "7s", "{case} {wait:?}");
        assert_eq!(stock(&mut tx).await, before - 1);
        tx.execute("ROLLBACK TO SAVEPOINT lockwright").await.unwrap();
        assert_eq!(stock(&mut tx).await, before, "it was the user's own savepoint");
        sell(&mut tx).await;
        tx.commit().await.unwrap();
        assert_eq!(setting(&mut connection, "lock_timeout").await, "11s", "{case} {wait:?}");
        assert_eq!(stock(&mut connection).await, before - 1, "what it did was committed");
    }
}

#[tokio::test]
async fn a_short_lock_timeout_of_the_user_does_not_end_a_wait() {
    let (server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    tx.execute("SET LOCAL lock_timeout = '50ms'").await.unwrap();
    let began = Instant::now();
    let (answer, ()) = tokio::join!(lock_in_transaction(&mut tx, "a", Wait::NoLimit), async {
        waiting(&server, 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        holder.rollback().await.unwrap();
    });
    locked(answer);
    assert!(began.elapsed() > Duration::from_millis(300));
    assert_eq!(setting(&mut tx, "lock_timeout").await, "50ms");
}

#[tokio::test]
async fn the_users_statement_timeout_is_an_error_that_leaves_the_transaction_usable() {
    let (_server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    sell(&mut tx).await;
    tx.execute("SET LOCAL statement_timeout = '200ms'").await.unwrap();
    refused(
        lock_in_transaction(&mut tx, "a", Wait::NoLimit).await,
        ErrorKind::Unavailable,
        "statement_timeout",
    );
    assert_eq!(stock(&mut tx).await, 6);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_deadlock_is_an_error_of_one_and_leaves_it_usable() {
    let (_server, pool) = shop().await;
    let (mut one, mut two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    locked(lock_in_transaction(&mut one, "a", Wait::NoLimit).await);
    locked(lock_in_transaction(&mut two, "b", Wait::NoLimit).await);
    // One gets the error and rolls back, the other gets its lock.
    let cross = async |mut tx: sqlx::Transaction<'static, sqlx::Postgres>, name: &str| {
        let answer = lock_in_transaction(&mut tx, name, Wait::NoLimit).await;
        let _ = stock(&mut tx).await;
        tx.rollback().await.unwrap();
        answer
    };
    let (one, two) = tokio::join!(cross(one, "b"), cross(two, "a"));
    let (loser, winner) = if one.is_err() { (one, two) } else { (two, one) };
    refused(loser, ErrorKind::Unavailable, "a deadlock");
    locked(winner);
}

#[tokio::test]
async fn of_a_dropped_wait_nothing_holds_the_lock_later() {
    let (server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    let wait = tokio::spawn(async move { lock_in_transaction(&mut tx, "a", Wait::NoLimit).await });
    waiting(&server, 1).await;
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    // The transaction was dropped too.
    holder.commit().await.unwrap();
    let mut next = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut next, "a", Wait::For(PATIENCE)).await);
    next.commit().await.unwrap();
    until("nobody has it", async || (advisory(&server, true) == 0).then_some(())).await;
    assert_eq!(advisory(&server, false), 0);
}

#[tokio::test]
async fn the_statement_of_a_dropped_wait_ends_though_the_holder_stays() {
    let (server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    let limited = tokio::time::timeout(
        Duration::from_millis(300),
        lock_in_transaction(&mut tx, "a", Wait::NoLimit),
    );
    assert!(limited.await.is_err());
    assert_eq!(advisory(&server, false), 1, "it goes on in the server");
    let began = Instant::now();
    // The error of the wait. The rollback happens with the connection's next use.
    let error = tx.rollback().await.unwrap_err();
    assert!(error.to_string().contains("lock timeout"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(advisory(&server, false), 0);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright' AND state LIKE '%aborted%'";
    until("it was rolled back", async || (server.sql(open).unwrap() == "0").then_some(())).await;
}
