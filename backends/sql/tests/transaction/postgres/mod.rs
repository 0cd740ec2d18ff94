//! On PostgreSQL.

mod fence;
mod lock;
mod waiting;

use lockwright_testbed as testbed;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Executor, PgConnection, Row};

use crate::kit::until;

/// Starts a server with an application's pool, and a table with stock.
pub(crate) async fn shop() -> (testbed::Postgres, PgPool) {
    let server = testbed::Postgres::start().unwrap();
    let pool = PgPoolOptions::new().max_connections(10).connect(&server.url()).await.unwrap();
    pool.execute("CREATE TABLE stock (item text PRIMARY KEY, number bigint NOT NULL)")
        .await
        .unwrap();
    pool.execute("INSERT INTO stock VALUES ('pear', 7)").await.unwrap();
    (server, pool)
}

pub(crate) async fn stock(connection: &mut PgConnection) -> i64 {
    connection.fetch_one("SELECT number FROM stock WHERE item = 'pear'").await.unwrap().get(0)
}

pub(crate) async fn sell(connection: &mut PgConnection) {
    connection.execute("UPDATE stock SET number = number - 1 WHERE item = 'pear'").await.unwrap();
}

pub(crate) async fn setting(connection: &mut PgConnection, name: &'static str) -> String {
    sqlx::query("SELECT current_setting($1)").bind(name).fetch_one(connection).await.unwrap().get(0)
}

/// Returns the number of advisory locks that are granted or waited for.
pub(crate) fn advisory(server: &testbed::Postgres, granted: bool) -> u32 {
    let locks = server
        .sql(&format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = {granted}"
        ))
        .unwrap();
    locks.parse().unwrap()
}

pub(crate) async fn waiting(server: &testbed::Postgres, number: u32) {
    until("they wait in the server", async || (advisory(server, false) == number).then_some(()))
        .await;
}
