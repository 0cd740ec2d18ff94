//! Exclusion between transactions, and the end of a lock.

use lockwright_core::ErrorKind;
use lockwright_sql::Mysql;
use lockwright_sql::mysql::{Config, InTransaction, lock_in_transaction};
use lockwright_sql::transaction::Wait;
use lockwright_testbed::MariaDb;
use sqlx::{Connection, Executor, MySqlConnection, MySqlPool};

use super::{sell, shop, stock};
use crate::kit::{busy, locked, refused};

#[tokio::test]
async fn a_transaction_has_it_until_its_commit_rollback_or_disconnect() {
    let (server, pool) = shop().await;
    let mut other = pool.begin().await.unwrap();
    // The first round creates the row and rolls it back.
    for end in ["rollback", "commit", "rollback", "drop", "close", "terminate"] {
        let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
        match end {
            "commit" => tx.commit().await.unwrap(),
            "rollback" => tx.rollback().await.unwrap(),
            "drop" => {
                drop(tx);
                // Nothing is sent until the connection is used again.
                busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
                connection.ping().await.unwrap();
            }
            "close" => {
                drop(tx);
                connection.close().await.unwrap();
            }
            _ => {
                let id = "SELECT MAX(trx_mysql_thread_id) FROM information_schema.innodb_trx";
                server.sql(&format!("KILL {}", server.sql(id).unwrap())).unwrap();
            }
        }
        locked(lock_in_transaction(&mut other, "orders/42", Wait::NoLimit).await);
        other.rollback().await.unwrap();
        other = pool.begin().await.unwrap();
    }
}

/// New and existing names, adjacent in the index, at the level that locks gaps.
#[tokio::test]
async fn other_names_are_other_locks() {
    let (_server, pool) = shop().await;
    for _ in 0..2 {
        let mut transactions = Vec::new();
        for name in ["m", "l", "n", "mm", "M", "ö", "o", "m'", "m\\'", "'; ROLLBACK; --", ":name"]
        {
            let mut tx = MySqlConnection::connect(&_server.url()).await.unwrap();
            tx.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
            tx.execute("BEGIN").await.unwrap();
            locked(lock_in_transaction(&mut tx, name, Wait::No).await);
            transactions.push(tx);
        }
        let mut tx = pool.begin().await.unwrap();
        refused(lock_in_transaction(&mut tx, " x", Wait::No).await, ErrorKind::InvalidInput, "");
        busy(lock_in_transaction(&mut tx, "m'", Wait::No).await);
        for mut tx in transactions {
            tx.execute("COMMIT").await.unwrap();
        }
    }
}

#[tokio::test]
async fn outside_a_transaction_it_is_refused_and_nothing_is_locked() {
    let (server, pool) = shop().await;
    let mut connection = pool.acquire().await.unwrap();
    for wait in [Wait::No, Wait::NoLimit] {
        refused(
            lock_in_transaction(&mut connection, "a", wait).await,
            ErrorKind::InvalidInput,
            "there is no transaction",
        );
    }
    assert_eq!(server.sql("SELECT COUNT(*) FROM lockwright_turn").unwrap(), "0");
    assert_eq!(stock(&mut connection).await, 7, "it can be used");
    // A transaction begun by hand is accepted, and a connection without autocommit.
    for begin in ["BEGIN", "SET autocommit = 0"] {
        connection.execute(begin).await.unwrap();
        locked(lock_in_transaction(&mut connection, "a", Wait::No).await);
        connection.execute("COMMIT").await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_refused_and_usable() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin_with("START TRANSACTION READ ONLY").await.unwrap();
    refused(
        lock_in_transaction(&mut tx, "a", Wait::NoLimit).await,
        ErrorKind::Unavailable,
        "is read-only",
    );
    assert_eq!(stock(&mut tx).await, 7);
}

#[tokio::test]
async fn without_its_table_it_says_what_to_do_and_a_backend_makes_it() {
    let server = MariaDb::start().unwrap();
    let pool = MySqlPool::connect(&server.url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    refused(
        lock_in_transaction(&mut tx, "a", Wait::No).await,
        ErrorKind::InvalidConfig,
        "lockwright schema",
    );
    refused(
        InTransaction::new().make_tables(&mut tx).await,
        ErrorKind::InvalidInput,
        "would commit",
    );
    tx.rollback().await.unwrap();
    let backend = Mysql::connect(&server.url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut tx, "a", Wait::No).await);
    drop(backend);
    let printed = Config::new(&server.url()).unwrap().schema();
    assert!(printed.contains(&InTransaction::new().schema()), "{printed}");
}

#[tokio::test]
async fn a_server_that_rolls_back_on_a_timeout_is_noticed() {
    let server = MariaDb::options().set("innodb_rollback_on_timeout", "ON").start().unwrap();
    let (_server, pool) = super::shop_on(server).await;
    let mut holder = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut holder, "a", Wait::No).await);
    let mut tx = pool.begin().await.unwrap();
    sell(&mut tx).await;
    refused(
        lock_in_transaction(&mut tx, "a", Wait::No).await,
        ErrorKind::Unavailable,
        "innodb_rollback_on_timeout",
    );
    tx.rollback().await.unwrap();
    assert_eq!(stock(&mut pool.acquire().await.unwrap()).await, 7);
}

/// Although they aren't created in one transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_make_their_tables_at_once_wait_for_the_last_one() {
    let (server, _pool) = shop().await;
    for round in 0..5 {
        let (table, mut making) = (format!("round_{round}"), tokio::task::JoinSet::new());
        for _ in 0..10 {
            let (url, table) = (server.url(), table.clone());
            making.spawn(async move {
                let backend = Mysql::connect(&format!("{url}?table={table}")).await.unwrap();
                let mut connection = MySqlConnection::connect(&url).await.unwrap();
                let mut tx = connection.begin().await.unwrap();
                let ours = InTransaction::new().table(&table).unwrap();
                locked(ours.lock(&mut tx, "a", Wait::NoLimit).await);
                tx.commit().await.unwrap();
                drop(backend);
            });
        }
        making.join_all().await;
    }
}
