//! An application that keeps its stock in a table of its own.

use sqlx::{Executor, Row, Transaction};

use lockwright_sql::transaction::Wait;

use super::server::*;
use crate::expect::locked;

pub(super) async fn shop() -> (Server, Pool) {
    shop_on(Server::start().unwrap()).await
}

pub(super) async fn shop_on(server: Server) -> (Server, Pool) {
    let pool = bare(&server).await;
    InTransaction::new().make_tables(&mut pool.acquire().await.unwrap()).await.unwrap();
    (server, pool)
}

pub(super) async fn bare(server: &Server) -> Pool {
    let pool = PoolOptions::new().max_connections(10).connect(&server.url()).await.unwrap();
    pool.execute("CREATE TABLE stock (item VARCHAR(99) PRIMARY KEY, number BIGINT NOT NULL)")
        .await
        .unwrap();
    pool.execute("INSERT INTO stock VALUES ('pear', 7)").await.unwrap();
    pool
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
