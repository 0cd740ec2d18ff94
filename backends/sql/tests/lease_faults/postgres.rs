//! PostgreSQL.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{DistributedLock, async_trait};
use lockwright_testbed::Postgres;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::kit::Server;

crate::cases!(Postgres);

#[tokio::test(flavor = "multi_thread")]
async fn silent_listener_is_replaced() {
    let server = Server::start();
    crate::silence::listener_is_replaced(&server).await;
}

async fn locking(server: &Postgres, statement: String) -> PgConnection {
    let mut session = PgConnection::connect(&server.admin_url()).await.unwrap();
    session.execute("BEGIN").await.unwrap();
    session.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await.unwrap();
    session
}

#[async_trait]
impl Server for Postgres {
    type Locking = PgConnection;

    fn start() -> Self {
        Postgres::start().unwrap()
    }

    fn url(&self) -> String {
        Postgres::url(self)
    }

    fn url_through(&self, port: u16) -> String {
        Postgres::url_through(self, port)
    }

    fn address(&self) -> SocketAddr {
        Postgres::address(self)
    }

    async fn backend(url: &str) -> Arc<dyn DistributedLock> {
        Arc::new(lockwright_sql::Postgres::connect(url).await.unwrap())
    }

    async fn patient_backend(url: &str, answer: Duration) -> Arc<dyn DistributedLock> {
        let config = lockwright_sql::postgres::Config::new(url).unwrap();
        Arc::new(config.response_timeout(answer).connect().await.unwrap())
    }

    fn sql(&self, statements: &str) -> String {
        Postgres::sql(self, statements).unwrap()
    }

    async fn lock_row(&self, table: &str, condition: &str) -> PgConnection {
        let row = format!("SELECT name FROM {table} WHERE {condition} FOR UPDATE");
        locking(self, row).await
    }

    async fn lock_table(&self) -> PgConnection {
        locking(self, "LOCK TABLE lockwright_lease".to_owned()).await
    }

    fn miss_replica(&self, missing: bool) {
        let name = if missing { "nobody" } else { "" };
        Server::sql(self, &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        Server::sql(self, "SELECT pg_reload_conf()");
    }

    fn freeze(&self) {
        Postgres::freeze(self);
    }

    fn thaw(&self) {
        Postgres::thaw(self);
    }

    fn sessions(&self) -> usize {
        let count = "SELECT count(*) FROM pg_stat_activity \
                     WHERE usename = 'lockwright' AND application_name = 'lockwright'";
        Server::sql(self, count).trim().parse().unwrap()
    }

    async fn connect_as_application(&self) {
        let mut session = PgConnection::connect(&Postgres::url(self)).await.unwrap();
        session.execute("SELECT 1").await.unwrap();
    }
}
