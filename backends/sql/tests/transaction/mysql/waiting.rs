//! Waits, and the state of the transaction afterwards.

use std::time::{Duration, Instant};

use lockwright_core::ErrorKind;
use lockwright_sql::mysql::lock_in_transaction;
use lockwright_sql::transaction::Wait;
use sqlx::{Connection, Executor, MySqlConnection};

use super::{limit, sell, shop, stock, waiting};
use crate::kit::{BRIEFLY, PATIENCE, busy, locked, refused};

/// At the default level too, where an earlier snapshot would show old data.
#[tokio::test]
async fn a_waiter_gets_it_with_the_commit_and_sees_what_was_done() {
    let (server, pool) = shop().await;
    for level in ["REPEATABLE READ", "READ COMMITTED"] {
        for wait in [Wait::NoLimit, Wait::For(PATIENCE)] {
            let mut holder = pool.begin().await.unwrap();
            // The previous round's waiter may still be rolling back.
            locked(lock_in_transaction(&mut holder, "a", Wait::For(PATIENCE)).await);
            let before = stock(&mut holder).await;
            let mut waiter = MySqlConnection::connect(&server.url()).await.unwrap();
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            waiter.execute(sqlx::AssertSqlSafe(set)).await.unwrap();
            let waiter = tokio::spawn(async move {
                let mut waiter = waiter.begin().await.unwrap();
                locked(lock_in_transaction(&mut waiter, "a", wait).await);
                let left = stock(&mut waiter).await;
                waiter.commit().await.unwrap();
                left
            });
            waiting(&server, 1).await;
            sell(&mut holder).await;
            holder.commit().await.unwrap();
            assert_eq!(waiter.await.unwrap(), before - 1, "{level} {wait:?}");
        }
    }
}

#[tokio::test]
async fn a_wait_is_as_long_as_was_asked_for() {
    let (_server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    for millis in [0, 300, 1_300, 5_500] {
        let began = Instant::now();
        let limit = Duration::from_millis(millis);
        busy(lock_in_transaction(&mut tx, "a", Wait::For(limit)).await);
        let took = began.elapsed();
        assert!(took >= limit && took < limit + Duration::from_secs(2), "{limit:?}: {took:?}");
    }
}

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
        let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
        connection.execute("SET SESSION innodb_lock_wait_timeout = 11").await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        tx.execute("SAVEPOINT mine").await.unwrap();
        // A locking read takes no snapshot.
        sell(&mut tx).await;

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

        assert_eq!(limit(&mut tx).await, 11, "{case} {wait:?}");
        let after = stock(&mut tx).await;
        tx.execute("ROLLBACK TO SAVEPOINT mine").await.unwrap();
        assert_eq!(stock(&mut tx).await, after + 1, "it was the user's own savepoint");
        sell(&mut tx).await;
        tx.commit().await.unwrap();
        assert_eq!(stock(&mut connection).await, after, "what it did was committed");
    }
}

#[tokio::test]
async fn a_deadlock_is_an_error_of_one_which_is_rolled_back() {
    let (_server, pool) = shop().await;
    let (mut one, mut two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    locked(lock_in_transaction(&mut one, "a", Wait::NoLimit).await);
    locked(lock_in_transaction(&mut two, "b", Wait::NoLimit).await);
    let cross = async |mut tx: sqlx::Transaction<'static, sqlx::MySql>, name: &str| {
        let answer = lock_in_transaction(&mut tx, name, Wait::NoLimit).await;
        tx.rollback().await.unwrap();
        answer
    };
    let (one, two) = tokio::join!(cross(one, "b"), cross(two, "a"));
    let (loser, winner) = if one.is_err() { (one, two) } else { (two, one) };
    refused(loser, ErrorKind::Unavailable, "a deadlock");
    locked(winner);
}

#[tokio::test]
async fn many_that_meet_a_new_name_get_it_one_after_the_other() {
    let (_server, pool) = shop().await;
    pool.execute("UPDATE stock SET number = 60").await.unwrap();
    for round in 0..3 {
        let mut buyers = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let pool = pool.clone();
            buyers.spawn(async move {
                let mut tx = pool.begin().await.unwrap();
                let name = format!("new/{round}");
                locked(lock_in_transaction(&mut tx, &name, Wait::NoLimit).await);
                let left = stock(&mut tx).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                let set = format!("UPDATE stock SET number = {}", left - 1);
                tx.execute(sqlx::AssertSqlSafe(set)).await.unwrap();
                tx.commit().await.unwrap();
            });
        }
        buyers.join_all().await;
    }
    assert_eq!(stock(&mut pool.acquire().await.unwrap()).await, 0);
}

/// The one deadlock that isn't the user's fault.
#[tokio::test]
async fn when_a_new_name_is_rolled_back_a_waiter_may_have_to_begin_again() {
    let (server, pool) = shop().await;
    let mut first = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut first, "new", Wait::No).await);
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let mut tx = pool.begin().await.unwrap();
        waiters.spawn(async move {
            let answer = lock_in_transaction(&mut tx, "new", Wait::NoLimit).await;
            tx.commit().await.unwrap();
            answer
        });
    }
    waiting(&server, 3).await;
    first.rollback().await.unwrap();
    let answers = waiters.join_all().await;
    assert!(answers.iter().any(Result::is_ok));
    for error in answers.into_iter().filter(Result::is_err) {
        refused(error, ErrorKind::Unavailable, "begin it again");
    }
    // From now on the row exists.
    let mut tx = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut tx, "new", Wait::No).await);
}

#[tokio::test]
async fn of_a_dropped_wait_nothing_holds_the_lock_later() {
    let (server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(limit(&mut tx).await, 50);
    let wait = tokio::spawn(async move { lock_in_transaction(&mut tx, "a", Wait::NoLimit).await });
    waiting(&server, 1).await;
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
    // The transaction was dropped too.
    holder.commit().await.unwrap();
    let mut next = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut next, "a", Wait::For(PATIENCE)).await);
    next.commit().await.unwrap();
    for _ in 0..10 {
        assert_eq!(limit(&mut pool.acquire().await.unwrap()).await, 50);
    }
}

#[tokio::test]
async fn the_statement_of_a_dropped_wait_ends_though_the_holder_stays() {
    let (server, pool) = shop().await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let limited = tokio::time::timeout(
        Duration::from_millis(300),
        lock_in_transaction(&mut tx, "a", Wait::NoLimit),
    );
    assert!(limited.await.is_err());
    waiting(&server, 1).await;
    let began = Instant::now();
    drop(tx);
    // The ping is sent after the wait has ended.
    while connection.ping().await.is_err() {}
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
    waiting(&server, 0).await;
    assert_eq!(limit(&mut connection).await, 50);
}

/// Without autocommit there is always a transaction.
#[tokio::test]
async fn a_transaction_that_the_server_rolled_back_is_told_without_autocommit_too() {
    let server = lockwright_testbed::MariaDb::options().set("innodb_rollback_on_timeout", "ON");
    let (server, pool) = super::shop_on(server.start().unwrap()).await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut other = MySqlConnection::connect(&server.url()).await.unwrap();
    other.execute("SET autocommit = 0").await.unwrap();
    super::sell(&mut other).await;
    let answer = lock_in_transaction(&mut other, "a", Wait::For(Duration::from_millis(50))).await;
    refused(answer, ErrorKind::Unavailable, "innodb_rollback_on_timeout");
}
