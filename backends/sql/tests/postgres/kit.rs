//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Attempt, Busy, Claim, DistributedLock, Event, Events, Granted, Identity, LockName, Mode, Token,
    Upkeep, Wait,
};
use lockwright_sql::Postgres;
use lockwright_sql::postgres::Options;
use lockwright_testbed as testbed;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Nobody waits this long unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A client whose time-outs no busy machine reaches.
pub(crate) async fn connect(url: &str) -> Postgres {
    patient(url).connect().await.unwrap()
}

pub(crate) fn patient(url: &str) -> Options {
    Options::from_url(url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn server_and_client() -> (testbed::Postgres, Postgres) {
    let server = testbed::Postgres::start().unwrap();
    let postgres = connect(&server.url()).await;
    (server, postgres)
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

pub(crate) async fn grant(postgres: &Postgres, claim: &Claim) -> Granted {
    match postgres.try_acquire(claim).await.unwrap() {
        Attempt::Granted(granted) => granted,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(crate) async fn busy(postgres: &Postgres, claim: &Claim, wait: Wait) -> Busy {
    match postgres.acquire(claim, wait).await.unwrap() {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(granted) => panic!("granted: {granted:?}"),
    }
}

/// The events that `postgres` sends from here on.
pub(crate) fn events(postgres: &Postgres) -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    postgres.attach(Events::to(move |event| sender.send(event).is_ok()));
    receiver
}

pub(crate) async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
    tokio::time::timeout(LIMIT, events.recv())
        .await
        .expect("an event comes")
        .expect("the backend lives")
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
pub(crate) async fn session(server: &testbed::Postgres) -> PgConnection {
    PgConnection::connect(&server.admin_url()).await.unwrap()
}

/// One that has locked the row of a name, until it is told otherwise.
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

/// Waits until so many statements of the server's user wait for a lock.
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
