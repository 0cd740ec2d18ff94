pub(crate) use lockwright_conformance::test_helpers::{
    LIMIT, claim, claim_for, eventually, grant, name,
};
use lockwright_sql::Mysql;
use lockwright_sql::mysql::Config;
use lockwright_testbed as testbed;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};

/// Connects with time limits for busy machines.
pub(crate) async fn connect(url: &str) -> Mysql {
    patient(url).connect().await.unwrap()
}

pub(crate) fn patient(url: &str) -> Config {
    Config::new(url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn server_and_client() -> (testbed::MariaDb, Mysql) {
    let server = testbed::MariaDb::start().unwrap();
    let mysql = connect(&server.url()).await;
    (server, mysql)
}

pub(crate) async fn session(server: &testbed::MariaDb) -> MySqlConnection {
    MySqlConnection::connect(&server.admin_url()).await.unwrap()
}

/// Opens a session that has locked the row of a name.
pub(crate) async fn locking(server: &testbed::MariaDb, locked: &str) -> MySqlConnection {
    let mut session = session(server).await;
    session.execute("BEGIN").await.unwrap();
    let rows = sqlx::query("SELECT name FROM lockwright_lease WHERE name = ? FOR UPDATE")
        .bind(locked)
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(rows.len(), 1, "{locked:?} has a row");
    session
}

/// Waits until `count` statements wait for a lock.
pub(crate) async fn wait_for_blocked(server: &testbed::MariaDb, count: usize) {
    eventually(|| async {
        let blocked = server
            .sql(
                "SELECT count(*) FROM information_schema.processlist \
                 WHERE user = 'lockwright' AND command = 'Query'",
            )
            .unwrap();
        (blocked == count.to_string()).then_some(())
    })
    .await;
}
