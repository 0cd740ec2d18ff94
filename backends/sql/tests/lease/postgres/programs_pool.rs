use super::server::*;
use crate::support::*;

const STATE: &str = "SELECT concat_ws(' ', pg_backend_pid(), current_setting('lock_timeout'), \
                     current_setting('statement_timeout'), \
                     (SELECT count(*) FROM pg_prepared_statements), \
                     (SELECT count(*) FROM pg_listening_channels()))";

async fn pool_of_one(server: &Server) -> Pool {
    let pool = PoolOptions::new().max_connections(1).test_before_acquire(false);
    pool.connect(&server.url()).await.unwrap()
}

async fn state(pool: &Pool) -> String {
    // The listing of prepared statements must not prepare one.
    let row = sqlx::raw_sql(STATE).fetch_one(pool).await.unwrap();
    sqlx::Row::get(&row, 0)
}

/// The pool has one connection, so each request must also return it.
#[tokio::test(flavor = "multi_thread")]
async fn connection_of_the_programs_pool_is_left_unchanged() {
    let server = Server::options().durable().start().unwrap();
    let pool = pool_of_one(&server).await;
    let before = state(&pool).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    assert_eq!(backend.profile().wake_up, WakeUp::Poll);
    let held = hold(&backend, "x").await;
    busy(&backend, &claim("x"), FOR_EVER).await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
    release(&backend, &held).await;
    assert_eq!(findings(&backend).await, [""; 0]);
    assert_eq!(state(&pool).await, before);
}

/// The late answer must not reach the next user of the connection.
#[tokio::test(flavor = "multi_thread")]
async fn connection_with_a_late_answer_is_closed() {
    let server = Server::start().unwrap();
    let pool = pool_of_one(&server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "x").await;
    let before = state(&pool).await;
    let row = lock_lease(&server, "x").await;
    let dropped = tokio::time::timeout(ms(300), backend.release(&held, ReleaseMode::Plain));
    assert!(dropped.await.is_err());
    drop(row);
    let after = state(&pool).await;
    assert_ne!(before.split(' ').next(), after.split(' ').next(), "the same session");
}

#[tokio::test]
async fn modes_with_connections_of_their_own_are_refused() {
    let server = Server::start().unwrap();
    let config = Config::from_pool(&pool_of_one(&server).await)
        .mode(lockwright_sql::postgres::Mode::Session);
    let refused = config.connect().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
    assert!(refused.to_string().contains("from_options"), "{refused}");
}
