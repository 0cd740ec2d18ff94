//! Requests on the connections of a program's own pool.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockwright_core::CredentialProvider;

use super::server::*;
use super::{SESSION_MODE, SESSION_STATE};
use crate::support::*;

pub(super) async fn pool_of(connections: u32, server: &Server) -> Pool {
    let pool = PoolOptions::new().max_connections(connections).test_before_acquire(false);
    pool.connect(&server.url()).await.unwrap()
}

/// Returns the session's id and settings, separated by spaces.
pub(super) async fn state(pool: &Pool) -> String {
    // Not prepared, because PostgreSQL lists prepared statements.
    let row = sqlx::raw_sql(SESSION_STATE).fetch_one(pool).await.unwrap();
    sqlx::Row::get(&row, 0)
}

/// Returns the parts of `after` that `before` lacks.
pub(super) fn changes<'a>(before: &str, after: &'a str) -> Vec<&'a str> {
    let before: HashSet<_> = before.split(' ').collect();
    after.split(' ').filter(|part| !before.contains(part)).collect()
}

fn session_id(state: &str) -> &str {
    state.split(' ').next().unwrap()
}

/// The pool has one connection, so each request must also return it.
#[tokio::test(flavor = "multi_thread")]
async fn connection_of_the_programs_pool_is_left_unchanged() {
    let server = Server::start().unwrap();
    let own = connect(&server.url()).await;
    let pool = pool_of(1, &server).await;
    let before = state(&pool).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    assert_eq!(backend.profile(), &Config::from_pool(&pool).profile());
    assert_eq!(backend.profile().wake_up, WakeUp::Poll);
    let held = hold(&backend, "x").await;
    busy(&backend, &claim("x"), FOR_EVER).await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
    release(&backend, &held).await;
    assert_eq!(findings(&backend).await, findings(&own).await);
    assert_eq!(changes(&before, &state(&pool).await), [""; 0]);
}

/// The late answer must not reach the next user of the connection.
#[tokio::test(flavor = "multi_thread")]
async fn connection_with_a_late_answer_is_closed() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "x").await;
    let before = state(&pool).await;
    let row = lock_lease(&server, "x").await;
    let dropped = tokio::time::timeout(ms(300), backend.release(&held, ReleaseMode::Plain));
    assert!(dropped.await.is_err());
    drop(row);
    assert_ne!(session_id(&state(&pool).await), session_id(&before), "the same session");
}

/// A dropped request must not take a connection from the program later.
#[tokio::test(flavor = "multi_thread")]
async fn request_dropped_while_the_program_uses_the_pool_takes_no_connection() {
    let server = Server::start().unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let pool = PoolOptions::new().max_connections(1).before_acquire(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(true) })
    });
    let pool = pool.connect(&server.url()).await.unwrap();
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let used = pool.acquire().await.unwrap();
    let before = taken.load(Ordering::Relaxed);
    let claim = claim("x");
    let dropped = tokio::time::timeout(ms(100), backend.try_acquire(&claim));
    assert!(dropped.await.is_err());
    drop(used);
    // The pool serves requests in order.
    drop(pool.acquire().await.unwrap());
    assert_eq!(taken.load(Ordering::Relaxed), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_that_the_program_left_open_ends_no_hold() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    for left in ["BEGIN", "BEGIN; SELECT 1"] {
        sqlx::raw_sql(left).execute(&pool).await.unwrap();
        let held = hold(&backend, "x").await;
        sqlx::raw_sql("ROLLBACK").execute(&pool).await.unwrap();
        assert!(!is_free(&backend, "x").await, "the rollback ended the hold");
        release(&backend, &held).await;
    }
}

/// Ordinary requests leave one of the pool's connections to renewals.
#[tokio::test(flavor = "multi_thread")]
async fn renewal_passes_requests_that_wait() {
    let server = Server::start().unwrap();
    let pool = pool_of(2, &server).await;
    let backend = Arc::new(Config::from_pool(&pool).connect().await.unwrap());
    let (x, y) = (hold(&*backend, "x").await, hold(&*backend, "y").await);
    let mut row = lock_lease(&server, "x").await;
    let releases = [(); 3].map(|()| {
        let (backend, x) = (Arc::clone(&backend), x.clone());
        tokio::spawn(async move { backend.release(&x, ReleaseMode::Plain).await.unwrap() })
    });
    wait_for_blocked(&server, 1).await;
    assert_eq!(renew(&*backend, &y).await, Renewal::RENEWED);
    row.execute("COMMIT").await.unwrap();
    for release in releases {
        release.await.unwrap();
    }
}

#[tokio::test]
async fn settings_that_need_connections_of_their_own_are_refused() {
    let server = Server::start().unwrap();
    let config = Config::from_pool(&pool_of(1, &server).await);
    let provider = CredentialProvider::new(async || Err("no vault"));
    for config in [config.clone().mode(SESSION_MODE), config.credentials(provider)] {
        let refused = config.connect().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
        assert!(refused.to_string().contains("from_options"), "{refused}");
    }
}
