use lockwright_sql::transaction::Wait;

use super::server::*;
use super::shop::{shop, stock};
use super::{BEGIN, LOCKS, SET_LEVEL, nothing_is_locked, terminate_holder};
use crate::expect::{busy, locked, refused};
use crate::support::*;

#[tokio::test]
async fn a_transaction_has_it_until_its_commit_rollback_or_disconnect() {
    let (server, pool) = shop().await;
    let mut other = pool.begin().await.unwrap();
    // On MySQL, the first transaction inserts the name's row, and its rollback removes the row.
    for end in ["rollback", "commit", "rollback", "drop", "close", "terminate"] {
        let mut connection = Connection::connect(&server.url()).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        locked(lock_in_transaction(&mut tx, "orders/42", Wait::No).await);
        busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
        match end {
            "commit" => tx.commit().await.unwrap(),
            "rollback" => tx.rollback().await.unwrap(),
            "drop" => {
                drop(tx);
                // The rollback is sent only when the connection is used again.
                busy(lock_in_transaction(&mut other, "orders/42", Wait::No).await);
                connection.ping().await.unwrap();
            }
            "close" => {
                drop(tx);
                connection.close().await.unwrap();
            }
            _ => terminate_holder(&server),
        }
        locked(lock_in_transaction(&mut other, "orders/42", Wait::NoLimit).await);
        other.rollback().await.unwrap();
        other = pool.begin().await.unwrap();
    }
    other.rollback().await.unwrap();
    nothing_is_locked(&server).await;
}

#[tokio::test]
async fn outside_a_transaction_it_is_refused_and_nothing_is_locked() {
    let (server, pool) = shop().await;
    let mut connection = pool.acquire().await.unwrap();
    for wait in [Wait::No, Wait::NoLimit] {
        let answer = lock_in_transaction(&mut connection, "a", wait).await;
        refused(answer, ErrorKind::InvalidInput, "there is no transaction");
    }
    let answer = check_fence(&mut connection, &fenced("a", 5)).await;
    refused(answer, ErrorKind::InvalidInput, "there is no transaction");
    assert_eq!(count(&server, LOCKS), 0);
    assert_eq!(count(&server, "SELECT count(*) FROM lockwright_fence"), 0);
    assert_eq!(stock(&mut connection).await, 7, "it can be used");
    for begin in BEGIN {
        connection.execute(begin).await.unwrap();
        locked(lock_in_transaction(&mut connection, "a", Wait::No).await);
        if SCHEME == "postgres" {
            assert_eq!(count(&server, LOCKS), 1);
        }
        connection.execute("COMMIT").await.unwrap();
    }
}

/// On MySQL, at `REPEATABLE READ`, a row lock may also lock the gap to the next row, and some of
/// these names are adjacent. The second round finds existing rows.
#[tokio::test]
async fn other_names_are_other_locks() {
    let (server, pool) = shop().await;
    for _ in 0..2 {
        let mut transactions = Vec::new();
        for name in ["m", "l", "n", "mm", "M", "ö", "o", "m'", "m\\'", "'; ROLLBACK; --", ":name"]
        {
            let mut tx = Connection::connect(&server.url()).await.unwrap();
            tx.execute(SET_LEVEL[0]).await.unwrap();
            tx.execute("BEGIN").await.unwrap();
            locked(lock_in_transaction(&mut tx, name, Wait::No).await);
            transactions.push(tx);
        }
        if SCHEME == "postgres" {
            assert_eq!(count(&server, LOCKS), 11);
        }
        let mut tx = pool.begin().await.unwrap();
        refused(lock_in_transaction(&mut tx, " x", Wait::No).await, ErrorKind::InvalidInput, "");
        busy(lock_in_transaction(&mut tx, "m'", Wait::No).await);
        for mut tx in transactions {
            tx.execute("COMMIT").await.unwrap();
        }
    }
}
