use lockwright_sql::transaction::Wait;
use lockwright_testbed::PgBouncer;
use sqlx::postgres::PgConnectOptions;

use super::advisory;
use super::server::*;
use super::shop::{sell_at_once, shop};
use crate::expect::{BRIEFLY, busy, locked};
use crate::support::*;

#[tokio::test]
async fn rollback_to_a_savepoint_unlocks() {
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
async fn it_and_a_hold_of_a_session_exclude_each_other() {
    let (server, pool) = shop().await;
    let locks = Locks::new(backend(&server, "session").await).unwrap();

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

#[tokio::test]
async fn behind_a_transaction_pooler_it_is_the_same() {
    let (server, pool) = shop().await;
    pool.execute("UPDATE stock SET number = 40").await.unwrap();
    let pooler = PgBouncer::in_front_of(&server).set("default_pool_size", "2").start().unwrap();
    let options: PgConnectOptions = pooler.url().parse().unwrap();
    let options = options.extra_float_digits(None).statement_cache_capacity(0);
    let shared = PoolOptions::new().max_connections(10).connect_with(options).await.unwrap();
    sell_at_once(&shared, 40, "a").await;
    assert_eq!(server.sql("SELECT number FROM stock").unwrap(), "0");
    assert_eq!(advisory(&server, true), 0);

    let mut tx = shared.begin().await.unwrap();
    locked(lock_in_transaction(&mut tx, "a", Wait::No).await);
    busy(lock_in_transaction(&mut shared.begin().await.unwrap(), "a", BRIEFLY).await);
    tx.commit().await.unwrap();
    locked(lock_in_transaction(&mut shared.begin().await.unwrap(), "a", Wait::No).await);
}
