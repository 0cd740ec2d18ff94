use std::sync::atomic::{AtomicUsize, Ordering};

use lockwright_core::CredentialProvider;

use super::server::*;
use crate::support::*;

const STATE: &str = "SELECT concat_ws(' ', pg_backend_pid(), current_setting('lock_timeout'), \
                     current_setting('statement_timeout'), \
                     (SELECT count(*) FROM pg_prepared_statements), \
                     (SELECT count(*) FROM pg_listening_channels()))";

async fn pool_of(connections: u32, server: &Server) -> Pool {
    let pool = PoolOptions::new().max_connections(connections).test_before_acquire(false);
    pool.connect(&server.url()).await.unwrap()
}

async fn state(pool: &Pool) -> String {
    // The listing of prepared statements must not prepare one.
    let row = sqlx::raw_sql(STATE).fetch_one(pool).await.unwrap();
    sqlx::Row::get(&row, 0)
}

fn process(state: &str) -> &str {
    state.split(' ').next().unwrap()
}

/// The pool has one connection, so each request must also return it.
#[tokio::test(flavor = "multi_thread")]
async fn connection_of_the_programs_pool_is_left_unchanged() {
    let server = Server::options().durable().start().unwrap();
    let pool = pool_of(1, &server).await;
    let before = state(&pool).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    assert_eq!(backend.profile(), &Config::from_pool(&pool).profile());
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
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "x").await;
    let before = state(&pool).await;
    let row = lock_lease(&server, "x").await;
    let dropped = tokio::time::timeout(ms(300), backend.release(&held, ReleaseMode::Plain));
    assert!(dropped.await.is_err());
    drop(row);
    assert_ne!(process(&state(&pool).await), process(&before), "the same session");
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

/// sqlx leaves a part of the answer to a failed `COPY` unread.
#[tokio::test(flavor = "multi_thread")]
async fn answer_to_another_request_is_not_used() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let (held, never) = (hold(&backend, "x").await, claim("never"));
    let copies = ["COPY missing TO STDOUT", "COPY (SELECT 1 / 0) TO STDOUT"];
    for (copy, queries) in copies.into_iter().flat_map(|copy| [(copy, 0), (copy, 2)]) {
        let mut connection = pool.acquire().await.unwrap();
        for _ in 0..3 {
            assert!(connection.copy_out_raw(copy).await.is_err());
        }
        for _ in 0..queries {
            // Fails with an error of an earlier copy, and leaves its row.
            sqlx::raw_sql("SELECT 'x'").execute(&mut *connection).await.ok();
        }
        drop(connection);
        if queries > 0
            && let Ok(inspection) = backend.inspect(&held.name).await
        {
            assert_eq!(inspection.holders.len(), 1, "{copy}, {queries}");
        }
        for renewed in [&held, &never] {
            match backend.renew(&[Renew::of(renewed)]).await {
                Ok(answers) => {
                    let is_renewed = answers[0] == Renewal::RENEWED;
                    assert_eq!(is_renewed, renewed.token == held.token, "{answers:?}");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
            }
        }
        assert_eq!(backend.inspect(&held.name).await.unwrap().holders.len(), 1);
    }
}

/// An error of the program's request must not look as if Lockwright's had no effect.
#[tokio::test(flavor = "multi_thread")]
async fn error_of_another_request_is_not_used() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    for _ in 0..3 {
        let held = hold(&backend, "x").await;
        let mut connection = pool.acquire().await.unwrap();
        for _ in 0..3 {
            connection.copy_out_raw("COPY (SELECT 1 / 0) TO STDOUT").await.err().unwrap();
        }
        drop(connection);
        match backend.release(&held, ReleaseMode::Plain).await {
            Ok(outcome) => assert_eq!(outcome, ReleaseOutcome::Released),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}"),
        }
        backend.release(&held, ReleaseMode::Reconcile).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_settings_of_the_program_change_no_request() {
    let server = Server::start().unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let held = hold(&backend, "é").await;
    server
        .sql(
            "CREATE SCHEMA mock; GRANT USAGE ON SCHEMA mock TO lockwright;
             CREATE FUNCTION mock.clock_timestamp() RETURNS timestamptz LANGUAGE sql
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 day' $$;
             CREATE TABLE mock.seen AS SELECT '' AS commits;
             CREATE FUNCTION mock.see() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
                 UPDATE mock.seen SET commits = current_setting('synchronous_commit');
                 RETURN NULL;
             END $$;
             CREATE TRIGGER see AFTER UPDATE ON lockwright_lease EXECUTE FUNCTION mock.see()",
        )
        .unwrap();
    sqlx::raw_sql("SET search_path = mock, pg_catalog, public; SET synchronous_commit = off")
        .execute(&pool)
        .await
        .unwrap();
    busy(&backend, &claim("é"), FOR_EVER).await;
    assert_eq!(renew(&backend, &held).await, Renewal::RENEWED);
    assert_eq!(server.sql("SELECT commits FROM mock.seen").unwrap(), "on");
    let set: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&pool).await.unwrap();
    assert_eq!(set, "off");
    sqlx::raw_sql("SET client_encoding = 'LATIN1'").execute(&pool).await.unwrap();
    // The connection is closed, and the next has the default.
    busy(&backend, &claim("é"), FOR_EVER).await;
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

/// The tables stay in one schema, although the sessions' search paths differ.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_with_other_search_paths_use_the_same_tables() {
    let server = Server::start().unwrap();
    server.sql("CREATE SCHEMA other; GRANT ALL ON SCHEMA other TO lockwright").unwrap();
    server.sql("CREATE SCHEMA \"My App\"; GRANT ALL ON SCHEMA \"My App\" TO lockwright").unwrap();
    let pool = pool_of(1, &server).await;
    let backend = Config::from_pool(&pool).connect().await.unwrap();
    let _held = hold(&backend, "x").await;
    sqlx::raw_sql("SET search_path = other").execute(&pool).await.unwrap();
    busy(&backend, &claim("x"), FOR_EVER).await;
    sqlx::raw_sql("SET search_path = other, public").execute(&pool).await.unwrap();
    let second = Config::from_pool(&pool).connect().await.unwrap();
    busy(&second, &claim("x"), FOR_EVER).await;
    sqlx::raw_sql("SET search_path = \"My App\"").execute(&pool).await.unwrap();
    let third = Config::from_pool(&pool).connect().await.unwrap();
    hold(&third, "x").await;
    sqlx::raw_sql("SET search_path = ''").execute(&pool).await.unwrap();
    refused(Config::from_pool(&pool).connect().await, ErrorKind::InvalidConfig, "`schema_name`");
}

#[tokio::test]
async fn settings_that_need_connections_of_their_own_are_refused() {
    let server = Server::start().unwrap();
    let config = Config::from_pool(&pool_of(1, &server).await);
    let provider = CredentialProvider::new(async || Err("no vault"));
    for config in
        [config.clone().mode(lockwright_sql::postgres::Mode::Session), config.credentials(provider)]
    {
        let refused = config.connect().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
        assert!(refused.to_string().contains("from_options"), "{refused}");
    }
}
