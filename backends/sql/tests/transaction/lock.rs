use lockwright_core::ErrorKind;
use lockwright_sql::transaction::Wait;
use sqlx::{Connection as _, Executor};

use super::server::{Connection, SCHEME, count, lock_in_transaction};
use super::shop::{shop, stock};
use super::{BEGIN, LOCKS, nothing_is_locked, terminate_holder};
use crate::expect::{busy, locked, refused};

#[tokio::test]
async fn a_transaction_has_it_until_its_commit_rollback_or_disconnect() {
    let (server, pool) = shop().await;
    let mut other = pool.begin().await.unwrap();
    // On MySQL, the first transaction inserts the name's row and rolls that back.
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
    assert_eq!(count(&server, LOCKS), 0);
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
