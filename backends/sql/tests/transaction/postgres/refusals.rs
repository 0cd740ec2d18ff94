use lockwright_sql::transaction::Wait;

use super::advisory;
use super::server::*;
use super::shop::{sell, shop, stock};
use crate::expect::refused;
use crate::support::*;

#[tokio::test]
async fn above_read_committed_a_concurrent_one_is_an_error() {
    let (_server, pool) = shop().await;
    for (number, level) in [(5, "REPEATABLE READ"), (7, "SERIALIZABLE")] {
        let mut tx = pool.begin().await.unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        tx.execute(AssertSqlSafe(set)).await.unwrap();
        stock(&mut tx).await;
        let mut other = pool.begin().await.unwrap();
        check_fence(&mut other, &fenced("a", number)).await.unwrap();
        other.commit().await.unwrap();
        let late = check_fence(&mut tx, &fenced("a", number + 1)).await;
        refused(late, ErrorKind::Unavailable, "begin again");
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn a_transaction_that_would_not_see_the_others_work_is_refused() {
    let (server, pool) = shop().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mut tx = pool.begin().await.unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        tx.execute(AssertSqlSafe(set)).await.unwrap();
        sell(&mut tx).await;
        let answer = lock_in_transaction(&mut tx, "a", Wait::NoLimit).await;
        refused(answer, ErrorKind::InvalidInput, "begin it as READ COMMITTED");
        assert_eq!(advisory(&server, true), 0);
        assert_eq!(stock(&mut tx).await, 6, "it can be used");
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn in_a_transaction_that_has_failed_it_is_refused() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(tx.execute("SELECT 1/0").await.is_err());
    let answer = lock_in_transaction(&mut tx, "a", Wait::NoLimit).await;
    refused(answer, ErrorKind::InvalidInput, "has failed before");
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn a_replica_is_refused() {
    let (server, _pool) = shop().await;
    let replica = Server::options().replica_of(&server).start().unwrap();
    let mut connection = Connection::connect(&replica.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    refused(lock_in_transaction(&mut tx, "a", Wait::No).await, ErrorKind::Unsupported, "replica");
    assert_eq!(advisory(&replica, true), 0);
}
