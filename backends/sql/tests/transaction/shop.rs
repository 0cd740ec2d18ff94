//! An application that keeps its stock in a table of its own.

use lockwright_sql::transaction::Wait;
use sqlx::{Row, Transaction};

use super::server::*;
use crate::expect::locked;
use crate::support::*;

pub(super) async fn shop() -> (Server, Pool) {
    shop_on(Server::start().unwrap()).await
}

pub(super) async fn shop_on(server: Server) -> (Server, Pool) {
    let pool = PoolOptions::new().max_connections(10).connect(&server.url()).await.unwrap();
    pool.execute("CREATE TABLE stock (item VARCHAR(99) PRIMARY KEY, number BIGINT NOT NULL)")
        .await
        .unwrap();
    pool.execute("INSERT INTO stock VALUES ('pear', 7)").await.unwrap();
    InTransaction::new().make_tables(&mut pool.acquire().await.unwrap()).await.unwrap();
    (server, pool)
}

pub(super) async fn begin_locked(pool: &Pool, name: &str) -> Transaction<'static, Database> {
    let mut tx = pool.begin().await.unwrap();
    locked(lock_in_transaction(&mut tx, name, Wait::No).await);
    tx
}

pub(super) async fn stock(connection: &mut Connection) -> i64 {
    connection.fetch_one("SELECT number FROM stock WHERE item = 'pear'").await.unwrap().get(0)
}

pub(super) async fn sell(connection: &mut Connection) {
    connection.execute("UPDATE stock SET number = number - 1 WHERE item = 'pear'").await.unwrap();
}

/// Sells pears in concurrent transactions. Without mutual exclusion, updates get lost.
pub(super) async fn sell_at_once(pool: &Pool, number: usize, lock: &str) {
    let mut buyers = JoinSet::new();
    for _ in 0..number {
        let (pool, lock) = (pool.clone(), lock.to_owned());
        buyers.spawn(async move {
            let mut tx = pool.begin().await.unwrap();
            locked(lock_in_transaction(&mut tx, &lock, Wait::NoLimit).await);
            let left = stock(&mut tx).await;
            sleep(ms(1)).await;
            let set = format!("UPDATE stock SET number = {}", left - 1);
            tx.execute(AssertSqlSafe(set)).await.unwrap();
            tx.commit().await.unwrap();
        });
    }
    buyers.join_all().await;
}
