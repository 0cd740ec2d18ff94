//! Exclusion between transactions, and the end of a lock.

use lockwright_core::{ErrorKind, Locks};
use lockwright_sql::Postgres;
use lockwright_sql::postgres::lock_in_transaction;
use lockwright_sql::transaction::Wait;
use lockwright_testbed::{self as testbed, PgBouncer};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, Row};

use super::{advisory, sell, shop, stock};
use crate::kit::{BRIEFLY, busy, locked, refused};

#[tokio::test]
async fn a_transaction_has_it_until_its_commit_rollback_or_disconnect() {
    let (server, pool) = shop().await;
    let mut other = pool.begin().await.unwrap();
    for end in ["commit", "rollback", "drop", "close", "terminate"] {
        let connection = PgConnection::connect(&server.url()).await.unwrap();
        let mut connection = connection;
        let mut tx = connection.begin().await.unwrap();
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
        match end {
            "commit" => tx.commit().await.unwrap(),
            "rollback" => tx.rollback().await.unwrap(),
            "drop" => {
                drop(tx);
                // Nothing is sent until the connection is used again.
                busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
                connection.ping().await.unwrap();
            }
            "close" => {
                drop(tx);
                connection.close().await.unwrap();
            }
            _ => assert_eq!(
                server.sql(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
                ).unwrap(),
                "t"
            ),
        }
        locked(lock_in_transaction(&mut other, "orders/42", Wait::NoLimit).await);
        other.rollback().await.unwrap();
        other = pool.begin().await.unwrap();
    }
    other.rollback().await.unwrap();
    assert_eq!(advisory(&server, true), 0);
}

#[tokio::test]
async fn what_is_rolled_back_to_a_savepoint_is_unlocked_with_it() {
    let (_server, pool) = shop().await;
    let (mut tx, mut other) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let mut nested = tx.begin().await.unwrap();
    locked(lock_in_transaction(&mut nested, "a", Wait::No).await);
    nested.rollback().await.unwrap();
    locked(lock_in_transaction(&mut other, "a", Wait::No).await);
    let mut nested = tx.begin().await.unwrap();
    locked(lock_in_transaction(&mut nested, "b", Wait::No).await);
    nested.commit().await.unwrap();
    busy(lock_in_transaction(&mut other, "b", Wait::No).await);
}

#[tokio::test]
async fn names_are_compared_byte_by_byte_and_inject_nothing() {
    let (server, pool) = shop().await;
    let mut transactions = Vec::new();
    for name in ["orders", "Orders", "örders", "ord'ers", "ord\\'ers", "'; ROLLBACK; --", ":name"]
    {
        let mut tx = pool.begin().await.unwrap();
        locked(lock_in_transaction(&mut tx, name, Wait::No).await);
        transactions.push(tx);
    }
    assert_eq!(advisory(&server, true), 7);
    let mut tx = pool.begin().await.unwrap();
    refused(lock_in_transaction(&mut tx, " x", Wait::No).await, ErrorKind::InvalidInput, "");
    busy(lock_in_transaction(&mut tx, "ord'ers", Wait::No).await);
}

#[tokio::test]
async fn outside_a_transaction_it_is_refused_and_nothing_is_locked() {
    let (server, pool) = shop().await;
    let mut connection = pool.acquire().await.unwrap();
    for wait in [Wait::No, Wait::NoLimit] {
        refused(
            lock_in_transaction(&mut connection, "a", wait).await,
            ErrorKind::InvalidInput,
            "there is no transaction",
        );
    }
    assert_eq!(advisory(&server, true), 0);
    assert_eq!(stock(&mut connection).await, 7, "it can be used");
    // A transaction begun by hand is accepted.
    connection.execute("BEGIN").await.unwrap();
    locked(lock_in_transaction(&mut connection, "a", Wait::No).await);
    assert_eq!(advisory(&server, true), 1);
    connection.execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn in_a_transaction_that_has_failed_it_is_refused() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(tx.execute("SELECT 1/0").await.is_err());
    refused(
        lock_in_transaction(&mut tx, "a", Wait::NoLimit).await,
        ErrorKind::InvalidInput,
        "has failed before",
    );
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_would_not_see_the_others_work_is_refused() {
    let (server, pool) = shop().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut tx = pool.begin().await.unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        tx.execute(sqlx::AssertSqlSafe(set)).await.unwrap();
        sell(&mut tx).await;
        refused(
            lock_in_transaction(&mut tx, "a", Wait::NoLimit).await,
            ErrorKind::InvalidInput,
            "begin it as READ COMMITTED",
        );
        assert_eq!(advisory(&server, true), 0);
        assert_eq!(stock(&mut tx).await, 6, "it can be used");
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_refused() {
    let (server, _pool) = shop().await;
    let replica = testbed::Postgres::options().replica_of(&server).start().unwrap();
    let mut connection = PgConnection::connect(&replica.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    refused(lock_in_transaction(&mut tx, "a", Wait::No).await, ErrorKind::Unsupported, "replica");
    assert_eq!(advisory(&replica, true), 0);
}

#[tokio::test]
async fn it_and_a_hold_of_a_session_exclude_each_other() {
    let (server, pool) = shop().await;
    let session = Postgres::connect(&format!("{}?mode=session", server.url())).await.unwrap();
    let locks = Locks::new(session).unwrap();

    let guard = locks.mutex("orders/42").acquire().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    busy(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
    guard.release().await.unwrap();
    locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
    assert!(locks.mutex("orders/42").try_acquire().await.unwrap().is_none());
    tx.commit().await.unwrap();
    let guard = locks.mutex("orders/42").try_acquire().await.unwrap();
    guard.unwrap().release().await.unwrap();
    locks.close().await;
}

/// Ten connections share two server connections.
#[tokio::test]
async fn behind_a_transaction_pooler_it_is_the_same() {
    let (server, pool) = shop().await;
    pool.execute("UPDATE stock SET number = 40").await.unwrap();
    let pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "2").start().unwrap();
    let options: PgConnectOptions = pooler.url().parse().unwrap();
    // PgBouncer rejects connections that set this parameter.
    let options = options.extra_float_digits(None).statement_cache_capacity(0);
    let shared = PgPoolOptions::new().max_connections(10).connect_with(options).await.unwrap();
    let mut buyers = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let shared = shared.clone();
        buyers.spawn(async move {
            let mut tx = shared.begin().await.unwrap();
            locked(lock_in_transaction(&mut tx, "a", Wait::NoLimit).await);
            let left: i64 =
                sqlx::raw_sql("SELECT number FROM stock").fetch_one(&mut *tx).await.unwrap().get(0);
            let set = format!("UPDATE stock SET number = {}", left - 1);
            sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut *tx).await.unwrap();
            tx.commit().await.unwrap();
        });
    }
    buyers.join_all().await;
    assert_eq!(server.sql("SELECT number FROM stock").unwrap(), "0");
    assert_eq!(advisory(&server, true), 0);

    let mut tx = shared.begin().await.unwrap();
    locked(lock_in_transaction(&mut tx, "a", Wait::No).await);
    busy(lock_in_transaction(&mut shared.begin().await.unwrap(), "a", BRIEFLY).await);
    tx.commit().await.unwrap();
    locked(lock_in_transaction(&mut shared.begin().await.unwrap(), "a", Wait::No).await);
}
