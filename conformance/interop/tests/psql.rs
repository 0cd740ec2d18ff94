//! Tests that Lockwright and `psql` exclude each other. `psql` locks a name's key with
//! `pg_advisory_lock`, or the name's row with `SELECT … FOR UPDATE`.
#![forbid(unsafe_code)]

use std::process::Command;
use std::time::Duration;

use lockwright_core::Locks;
use lockwright_interop::{Peer, SILENCE, waiting};
use lockwright_sql::Postgres;
use lockwright_sql::postgres::lock_in_transaction;
use lockwright_sql::transaction::{Outcome, Wait};
use lockwright_testbed as testbed;
use sqlx::{Connection, PgConnection};

/// Returns the name's key in SQL, as `lockwright_sql::postgres::transaction` documents it.
fn key(name: &str) -> String {
    format!(
        "('x' || substr(encode(sha256(convert_to('{name}', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint"
    )
}

fn psql(server: &testbed::Postgres) -> Peer {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"]).arg(server.url());
    Peer::start(command)
}

async fn client(server: &testbed::Postgres, mode: &str) -> Locks {
    let backend = Postgres::connect(&format!("{}?mode={mode}", server.url())).await.unwrap();
    Locks::builder(backend).ttl(Duration::from_secs(10)).build().unwrap()
}

#[tokio::test]
async fn an_advisory_lock_of_psql_keeps_a_session_out_until_it_is_unlocked() {
    let server = testbed::Postgres::start().unwrap();
    let locks = client(&server, "session").await;
    let mut psql = psql(&server);
    psql.send(&format!("SELECT pg_advisory_lock({});", key("orders/42")));
    assert_eq!(psql.answer(), "");
    assert!(locks.mutex("orders/42").try_acquire().await.unwrap().is_none());
    assert!(locks.mutex("orders/43").try_acquire().await.unwrap().is_some());

    let waiter = waiting(&locks, "orders/42").await;
    assert_eq!(psql.ask(&format!("SELECT pg_advisory_unlock({});", key("orders/42"))), "t");
    waiter.await.unwrap().release().await.unwrap();

    psql.send(&format!("SELECT pg_advisory_lock({});", key("orders/42")));
    assert_eq!(psql.answer(), "");
    let waiter = waiting(&locks, "orders/42").await;
    psql.kill();
    waiter.await.unwrap().release().await.unwrap();
    locks.close().await;
}

#[tokio::test]
async fn a_hold_of_a_session_keeps_psql_out_until_it_is_released() {
    let server = testbed::Postgres::start().unwrap();
    let locks = client(&server, "session").await;
    let mut psql = psql(&server);
    let guard = locks.mutex("orders/42").acquire().await.unwrap();
    let attempt = format!("SELECT pg_try_advisory_lock({});", key("orders/42"));
    assert_eq!(psql.ask(&attempt), "f");
    psql.send(&format!("SELECT pg_advisory_lock({});", key("orders/42")));
    assert!(psql.is_silent_for(SILENCE));
    guard.release().await.unwrap();
    assert_eq!(psql.answer(), "");
    assert!(locks.mutex("orders/42").try_acquire().await.unwrap().is_none());
    locks.close().await;
}

#[tokio::test]
async fn a_lock_of_a_transaction_and_one_of_psql_exclude_each_other() {
    let server = testbed::Postgres::start().unwrap();
    let mut psql = psql(&server);
    let mut connection = PgConnection::connect(&server.url()).await.unwrap();

    let mut tx = connection.begin().await.unwrap();
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::No).await.unwrap();
    assert_eq!(ours, Outcome::Locked);
    let attempt = format!("SELECT pg_try_advisory_lock({});", key("orders/42"));
    assert_eq!(psql.ask(&attempt), "f");
    tx.commit().await.unwrap();
    assert_eq!(psql.ask(&attempt), "t");

    let mut tx = connection.begin().await.unwrap();
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::No).await.unwrap();
    assert_eq!(ours, Outcome::Busy);
    assert_eq!(psql.ask(&format!("SELECT pg_advisory_unlock({});", key("orders/42"))), "t");
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::No).await.unwrap();
    assert_eq!(ours, Outcome::Locked);
}

#[tokio::test]
async fn a_row_that_psql_has_locked_and_a_hold_in_a_row_exclude_each_other() {
    let server = testbed::Postgres::start().unwrap();
    let locks = client(&server, "row").await;
    let mut psql = psql(&server);
    let row = "SELECT name FROM lockwright_row WHERE name = 'orders/42' FOR UPDATE";

    let guard = locks.mutex("orders/42").acquire().await.unwrap();
    psql.send(&format!("BEGIN; {row};"));
    assert!(psql.is_silent_for(SILENCE));
    guard.release().await.unwrap();
    assert_eq!(psql.answer(), "orders/42");

    assert!(locks.mutex("orders/42").try_acquire().await.unwrap().is_none());
    let waiter = waiting(&locks, "orders/42").await;
    psql.send("COMMIT;");
    waiter.await.unwrap().release().await.unwrap();
    locks.close().await;
}
