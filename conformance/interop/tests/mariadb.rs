//! Tests that Lockwright and `mariadb` exclude each other. `mariadb` locks a name with `GET_LOCK`,
//! or the name's row with `SELECT … FOR UPDATE`.
#![forbid(unsafe_code)]

use std::process::Command;
use std::time::Duration;

use lockwright_core::Locks;
use lockwright_interop::{LIMIT, Peer, SILENCE, waiting};
use lockwright_sql::Mysql;
use lockwright_sql::mysql::{InTransaction, lock_in_transaction};
use lockwright_sql::transaction::{Outcome, Wait};
use lockwright_testbed::MariaDb;
use sqlx::{Connection, MySqlConnection};

/// Lock names, each with its argument of `GET_LOCK`: a hash if the name has capitals or non-ASCII
/// characters.
const LOCKS: [(&str, &str); 3] = [
    ("orders/42", "'orders/42'"),
    ("Orders/42", "SHA2('Orders/42', 256)"),
    ("örder", "SHA2('örder', 256)"),
];

fn mariadb(server: &MariaDb) -> Peer {
    let mut command = Command::new("mariadb");
    command
        .args([
            "--no-defaults",
            "--default-character-set=utf8mb4",
            "--batch",
            "--skip-column-names",
        ])
        .args(["--unbuffered", "--host=127.0.0.1", "--user=lockwright"])
        .arg(format!("--port={}", server.port()))
        .arg("lockwright")
        .env("MYSQL_PWD", server.password());
    Peer::start(command)
}

async fn client(server: &MariaDb, mode: &str) -> Locks {
    let backend = Mysql::connect(&format!("{}?mode={mode}", server.url())).await.unwrap();
    Locks::builder(backend).ttl(Duration::from_secs(10)).build().unwrap()
}

#[tokio::test]
async fn a_get_lock_of_mariadb_keeps_a_session_out_until_it_is_released() {
    let server = MariaDb::start().unwrap();
    let locks = client(&server, "session").await;
    for (name, documented) in LOCKS {
        let mut mariadb = mariadb(&server);
        assert_eq!(mariadb.ask(&format!("SELECT GET_LOCK({documented}, 10);")), "1");
        assert!(locks.mutex(name).try_acquire().await.unwrap().is_none(), "{name}");
        assert!(locks.mutex("orders/43").try_acquire().await.unwrap().is_some());

        let waiter = waiting(&locks, name).await;
        assert_eq!(mariadb.ask(&format!("SELECT RELEASE_LOCK({documented});")), "1");
        waiter.await.unwrap().release().await.unwrap();

        assert_eq!(mariadb.ask(&format!("SELECT GET_LOCK({documented}, 10);")), "1");
        let waiter = waiting(&locks, name).await;
        mariadb.kill();
        waiter.await.unwrap().release().await.unwrap();
    }
    locks.close().await;
}

#[tokio::test]
async fn a_hold_of_a_session_keeps_mariadb_out_until_it_is_released() {
    let server = MariaDb::start().unwrap();
    let locks = client(&server, "session").await;
    for (name, documented) in LOCKS {
        let mut mariadb = mariadb(&server);
        let guard = locks.mutex(name).acquire().await.unwrap();
        assert_eq!(mariadb.ask(&format!("SELECT GET_LOCK({documented}, 0);")), "0", "{name}");
        mariadb.send(&format!("SELECT GET_LOCK({documented}, 20);"));
        assert!(mariadb.is_silent_for(SILENCE));
        guard.release().await.unwrap();
        assert_eq!(mariadb.answer(), "1");
        assert!(locks.mutex(name).try_acquire().await.unwrap().is_none());
    }
    locks.close().await;
}

#[tokio::test]
async fn a_row_that_mariadb_has_locked_and_a_hold_in_a_row_exclude_each_other() {
    let server = MariaDb::start().unwrap();
    let locks = client(&server, "row").await;
    let mut mariadb = mariadb(&server);
    let row = "SELECT name FROM lockwright_row WHERE name = 'orders/42' FOR UPDATE";

    let guard = locks.mutex("orders/42").acquire().await.unwrap();
    mariadb.send(&format!("BEGIN; {row};"));
    assert!(mariadb.is_silent_for(SILENCE));
    guard.release().await.unwrap();
    assert_eq!(mariadb.answer(), "orders/42");

    assert!(locks.mutex("orders/42").try_acquire().await.unwrap().is_none());
    let waiter = waiting(&locks, "orders/42").await;
    mariadb.send("COMMIT;");
    waiter.await.unwrap().release().await.unwrap();
    locks.close().await;
}

#[tokio::test]
async fn a_lock_of_a_transaction_and_a_row_that_mariadb_has_locked_exclude_each_other() {
    let server = MariaDb::start().unwrap();
    let mut mariadb = mariadb(&server);
    let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
    InTransaction::new().make_tables(&mut connection).await.unwrap();
    let row = "SELECT name FROM lockwright_turn WHERE name = 'orders/42' FOR UPDATE";

    let mut tx = connection.begin().await.unwrap();
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::No).await.unwrap();
    assert_eq!(ours, Outcome::Locked);
    mariadb.send(&format!("BEGIN; {row};"));
    assert!(mariadb.is_silent_for(SILENCE));
    tx.commit().await.unwrap();
    assert_eq!(mariadb.answer(), "orders/42");

    let mut tx = connection.begin().await.unwrap();
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::No).await.unwrap();
    assert_eq!(ours, Outcome::Busy);
    mariadb.send("COMMIT;");
    let ours = lock_in_transaction(&mut tx, "orders/42", Wait::For(LIMIT)).await.unwrap();
    assert_eq!(ours, Outcome::Locked);
}
