//! On MariaDB.

mod fence;
mod lock;
mod waiting;

use std::time::Duration;

use lockwright_sql::mysql::InTransaction;
use lockwright_testbed::MariaDb;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::{Executor, MySqlConnection, Row};

use crate::kit::until_each;

/// Starts a server with an application's pool, and a table with stock.
pub(crate) async fn shop() -> (MariaDb, MySqlPool) {
    shop_on(MariaDb::start().unwrap()).await
}

pub(crate) async fn shop_on(server: MariaDb) -> (MariaDb, MySqlPool) {
    let pool = MySqlPoolOptions::new().max_connections(10).connect(&server.url()).await.unwrap();
    pool.execute("CREATE TABLE stock (item VARCHAR(99) PRIMARY KEY, number BIGINT NOT NULL)")
        .await
        .unwrap();
    pool.execute("INSERT INTO stock VALUES ('pear', 7)").await.unwrap();
    InTransaction::new().make_tables(&mut pool.acquire().await.unwrap()).await.unwrap();
    (server, pool)
}

pub(crate) async fn stock(connection: &mut MySqlConnection) -> i64 {
    connection.fetch_one("SELECT number FROM stock WHERE item = 'pear'").await.unwrap().get(0)
}

pub(crate) async fn sell(connection: &mut MySqlConnection) {
    connection.execute("UPDATE stock SET number = number - 1 WHERE item = 'pear'").await.unwrap();
}

pub(crate) async fn limit(connection: &mut MySqlConnection) -> u64 {
    connection.fetch_one("SELECT @@SESSION.innodb_lock_wait_timeout").await.unwrap().get(0)
}

pub(crate) async fn waiting(server: &MariaDb, number: u32) {
    let waiting =
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    // The server refreshes this view only after 100 ms without a request.
    let pause = Duration::from_millis(150);
    until_each(pause, "they wait in the server", async || {
        (server.sql(waiting).unwrap() == number.to_string()).then_some(())
    })
    .await;
}
