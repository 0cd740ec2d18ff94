//! MariaDB, or MySQL if the chosen packages have it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{DistributedLock, async_trait};
use lockwright_testbed::MariaDb;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::kit::Server;

crate::cases!(MariaDb);

async fn locking(server: &MariaDb, statement: String) -> MySqlConnection {
    let mut session = MySqlConnection::connect(&server.admin_url()).await.unwrap();
    session.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await.unwrap();
    session
}

#[async_trait]
impl Server for MariaDb {
    type Locking = MySqlConnection;

    fn start() -> Self {
        MariaDb::options().semi_synchronous().start().unwrap()
    }

    fn url(&self) -> String {
        MariaDb::url(self)
    }

    fn url_through(&self, port: u16) -> String {
        MariaDb::url_through(self, port)
    }

    fn address(&self) -> SocketAddr {
        MariaDb::address(self)
    }

    async fn backend(url: &str) -> Arc<dyn DistributedLock> {
        Arc::new(lockwright_sql::Mysql::connect(url).await.unwrap())
    }

    async fn patient_backend(url: &str, answer: Duration) -> Arc<dyn DistributedLock> {
        let config = lockwright_sql::mysql::Config::new(url).unwrap();
        Arc::new(config.response_timeout(answer).connect().await.unwrap())
    }

    fn sql(&self, statements: &str) -> String {
        MariaDb::sql(self, statements).unwrap()
    }

    async fn lock_row(&self, table: &str, condition: &str) -> MySqlConnection {
        let row = format!("SELECT name FROM {table} WHERE {condition} FOR UPDATE");
        locking(self, format!("BEGIN; {row}")).await
    }

    async fn lock_table(&self) -> MySqlConnection {
        locking(self, "LOCK TABLES lockwright_lease WRITE".to_owned()).await
    }

    fn miss_replica(&self, missing: bool) {
        self.wait_for_replica(missing).unwrap();
    }

    fn freeze(&self) {
        MariaDb::freeze(self);
    }

    fn thaw(&self) {
        MariaDb::thaw(self);
    }

    fn sessions(&self) -> usize {
        let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'lockwright'";
        Server::sql(self, count).trim().parse().unwrap()
    }

    async fn connect_as_application(&self) {
        let mut session = MySqlConnection::connect(&MariaDb::url(self)).await.unwrap();
        session.execute("SELECT 1").await.unwrap();
    }
}
