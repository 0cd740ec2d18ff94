use std::sync::atomic::{AtomicBool, Ordering};

use super::programs_pool::{changes, pool_of, state};
use super::server::*;
use crate::support::*;

const SETTINGS: [&str; 3] = [
    "SET NAMES latin1, time_zone = '+05:30', sql_mode = 'ORACLE', completion_type = 'CHAIN', \
     sql_select_limit = 0, sql_safe_updates = 1, sql_big_selects = 0, max_join_size = 1000, \
     max_statement_time = 77, lock_wait_timeout = 77, last_insert_id = 7",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    "SET autocommit = 0, character_set_results = NULL",
];

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_session_change_no_request_and_are_restored() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let (held, _other) = (hold(&backend, "é").await, hold(&backend, "x").await);
    for set in SETTINGS {
        sqlx::raw_sql(set).execute(&pool).await.unwrap();
        let before = state(&pool).await;
        sqlx::raw_sql("COMMIT AND NO CHAIN").execute(&pool).await.unwrap();
        busy(&backend, &claim("é"), FOR_EVER).await;
        assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
        assert_eq!(backend.list("", None).await.unwrap().names.len(), 2);
        assert_eq!(changes(&before, &state(&pool).await), [""; 0]);
    }
}

/// The driver returns the error of a dropped request to the next request.
#[tokio::test(flavor = "multi_thread")]
async fn error_of_another_request_is_not_used() {
    let server = Server::start().unwrap();
    let drops = Arc::new(AtomicBool::new(false));
    let drops_now = Arc::clone(&drops);
    let pool = PoolOptions::new().max_connections(1).before_acquire(move |connection, _| {
        let drops = drops_now.swap(false, Ordering::Relaxed);
        Box::pin(async move {
            let failing = sqlx::raw_sql("DO SLEEP(0.2); SELECT * FROM nothing").execute(connection);
            Ok(!drops || tokio::time::timeout(ms(50), failing).await.is_err())
        })
    });
    let pool = pool.connect(&server.url()).await.unwrap();
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "x").await;
    drops.store(true, Ordering::Relaxed);
    let error = backend.release(&held, ReleaseMode::Plain).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    release(&backend, &held).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_with_other_databases_use_the_same_tables() {
    let server = Server::start().unwrap();
    server.sql("CREATE DATABASE other; GRANT ALL ON other.* TO lockwright@'%'").unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let _held = hold(&backend, "x").await;
    sqlx::raw_sql("USE other").execute(&pool).await.unwrap();
    busy(&backend, &claim("x"), FOR_EVER).await;
    let second = Config::from_pool(&pool).connect().await.unwrap();
    busy(&second, &claim("x"), FOR_EVER).await;
}

#[tokio::test]
async fn pool_without_a_database_is_refused() {
    let server = Server::start().unwrap();
    let url = server.url();
    let pool = PoolOptions::new().connect_lazy(url.trim_end_matches("/lockwright")).unwrap();
    refused(Config::from_pool(&pool).connect().await, ErrorKind::InvalidConfig, "no database");
}

/// With `autocommit = 0`, each query of the program begins a transaction. A request on an own
/// connection would fail after five tries.
#[tokio::test(flavor = "multi_thread")]
async fn request_succeeds_although_ten_sessions_have_open_transactions() {
    let server = Server::start().unwrap();
    let pool = pool_of(10, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..10 {
        let mut connection = pool.acquire().await.unwrap();
        let read = "SET autocommit = 0; SELECT * FROM lockwright_meta";
        sqlx::raw_sql(read).execute(&mut *connection).await.unwrap();
        connections.push(connection);
    }
    drop(connections);
    hold(&backend, "x").await;
}

/// A request to a free name reads its fence as the last insert id.
#[tokio::test(flavor = "multi_thread")]
async fn last_insert_id_of_the_program_is_no_fence() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    release(&backend, &hold(&backend, "x").await).await;
    let set = "SET last_insert_id = 9000000000000000000";
    sqlx::raw_sql(set).execute(&pool).await.unwrap();
    let held = hold(&backend, "x").await;
    let fence = backend.inspect(&held.name).await.unwrap().holders[0].fence;
    assert!(fence.unwrap() < Fence::new(9_000_000_000_000_000_000), "{fence:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_time_limit_of_the_program_cancels_no_request() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Arc::new(Config::from_pool(&pool).connect().await.unwrap());
    let held = hold(&*backend, "x").await;
    sqlx::raw_sql("SET max_statement_time = 0.2").execute(&pool).await.unwrap();
    let mut row = lock_lease(&server, "x").await;
    let releasing = tokio::spawn(async move { backend.release(&held, ReleaseMode::Plain).await });
    wait_for_blocked(&server, 1).await;
    tokio::time::sleep(ms(300)).await;
    run(&mut row, "COMMIT").await;
    assert_eq!(releasing.await.unwrap().unwrap(), ReleaseOutcome::Released);
}
