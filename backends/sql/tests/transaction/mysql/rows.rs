use std::time::Instant;

use lockwright_core::ErrorKind;
use lockwright_sql::transaction::Wait;
use sqlx::{AssertSqlSafe, Connection as _, Executor};
use tokio::task::JoinSet;

use super::server::{Backend, Connection, InTransaction, lock_in_transaction};
use super::shop::{begin_locked, shop, stock};
use super::{DEFAULT_LIMIT, limit, waiting};
use crate::expect::{locked, refused};
use crate::support::ms;

/// Each `CREATE TABLE` commits, so clients may see only some tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_make_their_tables_at_once_wait_for_the_last_one() {
    let (server, _pool) = shop().await;
    for round in 0..5 {
        let (table, mut making) = (format!("round_{round}"), JoinSet::new());
        for _ in 0..10 {
            let (url, table) = (server.url(), table.clone());
            making.spawn(async move {
                let backend = Backend::connect(&format!("{url}?table={table}")).await.unwrap();
                let mut connection = Connection::connect(&url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                let ours = InTransaction::new().table(&table).unwrap();
                locked(ours.lock(&mut tx, "a", Wait::NoLimit).await);
                tx.commit().await.unwrap();
                drop(backend);
            });
        }
        making.join_all().await;
    }
}

#[tokio::test]
async fn many_that_meet_a_new_name_get_it_one_after_the_other() {
    let (_server, pool) = shop().await;
    pool.execute("UPDATE stock SET number = 60").await.unwrap();
    for round in 0..3 {
        let mut buyers = JoinSet::new();
        for _ in 0..20 {
            let pool = pool.clone();
            buyers.spawn(async move {
                let mut tx = pool.begin().await.unwrap();
                let name = format!("new/{round}");
                locked(lock_in_transaction(&mut tx, &name, Wait::NoLimit).await);
                let left = stock(&mut tx).await;
                tokio::time::sleep(ms(1)).await;
                let set = format!("UPDATE stock SET number = {}", left - 1);
                tx.execute(AssertSqlSafe(set)).await.unwrap();
                tx.commit().await.unwrap();
            });
        }
        buyers.join_all().await;
    }
    assert_eq!(stock(&mut pool.acquire().await.unwrap()).await, 0);
}

#[tokio::test]
async fn when_a_new_name_is_rolled_back_a_waiter_may_have_to_begin_again() {
    let (server, pool) = shop().await;
    let first = begin_locked(&pool, "new").await;
    let mut waiters = JoinSet::new();
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
    begin_locked(&pool, "new").await;
}

#[tokio::test]
async fn the_statement_of_a_dropped_wait_ends_though_the_holder_stays() {
    let (server, pool) = shop().await;
    let _holder = begin_locked(&pool, "a").await;
    let mut connection = Connection::connect(&server.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let wait = lock_in_transaction(&mut tx, "a", Wait::NoLimit);
    assert!(tokio::time::timeout(ms(300), wait).await.is_err());
    waiting(&server, 1).await;
    let began = Instant::now();
    drop(tx);
    // A ping succeeds only after the dropped wait has ended.
    while connection.ping().await.is_err() {}
    assert!(began.elapsed() < ms(7_000), "late: {:?}", began.elapsed());
    waiting(&server, 0).await;
    assert_eq!(limit(&mut connection).await, DEFAULT_LIMIT);
}
