pub(crate) use lockwright_conformance::test_helpers::{
    LIMIT, busy, claim, claim_for, events, eventually, grant, name, next,
};
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Config;
use lockwright_testbed as testbed;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

/// Connects with time limits for busy machines.
pub(crate) async fn connect(url: &str) -> Postgres {
    patient(url).connect().await.unwrap()
}

pub(crate) fn patient(url: &str) -> Config {
    Config::new(url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn server_and_client() -> (testbed::Postgres, Postgres) {
    let server = testbed::Postgres::start().unwrap();
    let postgres = connect(&server.url()).await;
    (server, postgres)
}

pub(crate) async fn session(server: &testbed::Postgres) -> PgConnection {
    PgConnection::connect(&server.admin_url()).await.unwrap()
}

/// Opens a session that has locked the row of a name.
pub(crate) async fn locking(server: &testbed::Postgres, locked: &str) -> PgConnection {
    let mut session = session(server).await;
    session.execute("BEGIN").await.unwrap();
    let rows = sqlx::query("SELECT name FROM lockwright_lease WHERE name = $1 FOR UPDATE")
        .bind(locked)
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1, "{locked:?} has a row");
    session
}

/// Waits until `count` statements wait for a lock.
pub(crate) async fn wait_for_blocked(server: &testbed::Postgres, count: usize) {
    eventually(|| async {
        let blocked = server
            .sql(
                "SELECT count(*) FROM pg_stat_activity \
                 WHERE usename = 'lockwright' AND wait_event_type = 'Lock'",
            )
            .unwrap();
        (blocked == count.to_string()).then_some(())
    })
    .await;
}
