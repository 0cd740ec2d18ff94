//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Attempt, Claim, DistributedLock, Granted, Identity, LockName, Mode, Token, Upkeep,
};
use lockwright_sql::Mysql;
use lockwright_sql::mysql::Options;
use lockwright_testbed as testbed;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};

/// Nobody waits this long unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A client whose time-outs no busy machine reaches.
pub(crate) async fn connect(url: &str) -> Mysql {
    patient(url).connect().await.unwrap()
}

pub(crate) fn patient(url: &str) -> Options {
    Options::from_url(url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn server_and_client() -> (testbed::MariaDb, Mysql) {
    let server = testbed::MariaDb::start().unwrap();
    let mysql = connect(&server.url()).await;
    (server, mysql)
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn claim(locked: &str) -> Claim {
    claim_for(locked, Duration::from_secs(60))
}

pub(crate) fn claim_for(locked: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(locked),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        upkeep: Upkeep::Renewed,
    }
}

pub(crate) async fn grant(mysql: &Mysql, claim: &Claim) -> Granted {
    match mysql.try_acquire(claim).await.unwrap() {
        Attempt::Granted(granted) => granted,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, asking).await.expect("it happens")
}

/// A session of the test's own.
pub(crate) async fn session(server: &testbed::MariaDb) -> MySqlConnection {
    MySqlConnection::connect(&server.admin_url()).await.unwrap()
}

/// One that has locked the row of a name, until it is told otherwise.
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

/// Waits until so many statements of the server's user wait for a lock.
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
