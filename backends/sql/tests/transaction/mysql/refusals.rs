use lockwright_sql::transaction::{Outcome, Wait};

use super::server::*;
use super::shop::{begin_locked, sell, shop, shop_on, stock};
use crate::expect::refused;
use crate::support::*;

#[tokio::test]
async fn a_transaction_that_only_reads_is_refused_and_usable() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin_with("START TRANSACTION READ ONLY").await.unwrap();
    let answer = lock_in_transaction(&mut tx, "a", Wait::NoLimit).await;
    refused(answer, ErrorKind::Unavailable, "is read-only");
    assert_eq!(stock(&mut tx).await, 7);
}

#[tokio::test]
async fn without_its_table_it_says_what_to_do() {
    let server = Server::start().unwrap();
    let pool = Pool::connect(&server.url()).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let answer = lock_in_transaction(&mut tx, "a", Wait::No).await;
    refused(answer, ErrorKind::InvalidConfig, "lockwright schema");
    let answer = InTransaction::new().make_tables(&mut tx).await;
    refused(answer, ErrorKind::InvalidInput, "would commit");
}

/// Without autocommit, a new transaction begins after the server's rollback, and hides it.
#[tokio::test]
async fn a_server_that_rolls_back_on_a_timeout_is_noticed() {
    let server = Server::options().set("innodb_rollback_on_timeout", "ON").start().unwrap();
    let (server, pool) = shop_on(server).await;
    let _holder = begin_locked(&pool, "a").await;
    for (begin, wait) in [("BEGIN", Wait::No), ("SET autocommit = 0", Wait::For(ms(50)))] {
        let mut other = Connection::connect(&server.url()).await.unwrap();
        other.execute(begin).await.unwrap();
        sell(&mut other).await;
        let answer = lock_in_transaction(&mut other, "a", wait).await;
        refused(answer, ErrorKind::Unavailable, "innodb_rollback_on_timeout");
        other.execute("ROLLBACK").await.unwrap();
        assert_eq!(stock(&mut other).await, 7);
    }
}

/// MySQL rejects a wait of zero seconds in this SQL mode.
#[tokio::test]
async fn lock_works_in_a_strict_sql_mode() {
    let (_server, pool) = shop().await;
    let mut tx = pool.begin().await.unwrap();
    tx.execute("SET SESSION sql_mode = 'TRADITIONAL'").await.unwrap();
    assert_eq!(lock_in_transaction(&mut tx, "a", Wait::No).await.unwrap(), Outcome::Locked);
    tx.execute("SET SESSION sql_mode = DEFAULT").await.unwrap();
}
