//! The servers of these tests.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Identity, LockName, Locks, Mode, RenewalMode,
    Result, Token, Wait,
};
use lockwright_sql::{Mysql, Postgres};
use lockwright_testbed as testbed;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

pub(crate) const MODES: [&str; 2] = ["session", "row"];

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) trait Count: Send + 'static {
    fn count(&mut self) -> impl Future<Output = usize> + Send;
}

/// A server that allows few connections, with a second user, `application`.
pub(crate) trait Server: Sized + Send + Sync + 'static {
    fn start() -> Self;
    /// The URL of a client, through a proxy at `port`.
    fn url_through(&self, port: u16) -> String;
    fn address(&self) -> std::net::SocketAddr;
    fn sql(&self, statements: &str) -> String;
    fn freeze(&self);
    fn thaw(&self);
    /// Opens an administrator's connection that counts the clients' sessions.
    fn count_sessions(&self) -> impl Future<Output = impl Count> + Send + 'static;
    /// Connects as the user `application`, and runs a query.
    async fn application_asks(&self);
    async fn lock_table(&self, table: &str) -> Box<dyn Any + Send>;
    /// Sets whether each commit waits for a replica that doesn't exist.
    fn wait_for_replicas(&self, wait: bool);
    fn try_connect(url: &str) -> impl Future<Output = Result<Arc<dyn DistributedLock>>> + Send;
    /// Opens an administrator's connections until the server refuses them.
    async fn fill(&self) -> Box<dyn Any + Send>;
    /// Words of the server's error when it has no connection left.
    const FULL: [&str; 2];

    fn connect(url: &str) -> impl Future<Output = Arc<dyn DistributedLock>> + Send {
        async { Self::try_connect(url).await.unwrap() }
    }

    /// Connects a backend in this mode, with more parameters in its URL.
    async fn backend(&self, mode: &str, more: &str) -> Arc<dyn DistributedLock> {
        self.backend_through(self.address().port(), mode, more).await
    }

    async fn backend_through(&self, port: u16, mode: &str, more: &str) -> Arc<dyn DistributedLock> {
        Self::connect(&format!("{}?mode={mode}{more}", self.url_through(port))).await
    }

    async fn client(&self, mode: &str, ttl: Duration) -> Locks {
        Locks::builder(self.backend(mode, "").await).ttl(ttl).build().unwrap()
    }
}

impl Count for PgConnection {
    async fn count(&mut self) -> usize {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright'";
        let row = sqlx::query(count).fetch_one(self).await.unwrap();
        row.get::<i64, _>(0).try_into().unwrap()
    }
}

impl Count for MySqlConnection {
    async fn count(&mut self) -> usize {
        let count = "SELECT count(*) FROM information_schema.processlist WHERE user = 'lockwright'";
        let row = sqlx::query(count).fetch_one(self).await.unwrap();
        row.get::<i64, _>(0).try_into().unwrap()
    }
}

impl Server for testbed::Postgres {
    fn start() -> Self {
        let server = Self::options().set("max_connections", "20").start().unwrap();
        server.sql("CREATE ROLE application LOGIN PASSWORD 'application'").unwrap();
        server
    }

    fn freeze(&self) {
        self.freeze();
    }

    fn thaw(&self) {
        self.thaw();
    }

    fn count_sessions(&self) -> impl Future<Output = impl Count> + Send + 'static {
        let url = self.admin_url();
        async move { PgConnection::connect(&url).await.unwrap() }
    }

    async fn application_asks(&self) {
        let url = format!("postgres://application:application@{}/lockwright", self.address());
        let mut connection = PgConnection::connect(&url).await.unwrap();
        sqlx::query("SELECT 1").execute(&mut connection).await.unwrap();
    }

    async fn lock_table(&self, table: &str) -> Box<dyn Any + Send> {
        let mut connection = PgConnection::connect(&self.admin_url()).await.unwrap();
        let lock = format!("BEGIN; LOCK TABLE {table}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
        Box::new(connection)
    }

    fn wait_for_replicas(&self, wait: bool) {
        let standby = if wait { "gone" } else { "" };
        self.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'")).unwrap();
        self.sql("SELECT pg_reload_conf()").unwrap();
    }

    fn url_through(&self, port: u16) -> String {
        self.url_through(port)
    }

    fn address(&self) -> std::net::SocketAddr {
        self.address()
    }

    fn sql(&self, statements: &str) -> String {
        self.sql(statements).unwrap()
    }

    async fn try_connect(url: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(Postgres::connect(url).await?))
    }

    async fn fill(&self) -> Box<dyn Any + Send> {
        let mut connections = Vec::new();
        while let Ok(connection) = PgConnection::connect(&self.admin_url()).await {
            connections.push(connection);
        }
        Box::new(connections)
    }

    const FULL: [&str; 2] = ["too many clients", "remaining connection slots"];
}

impl Server for testbed::MariaDb {
    fn start() -> Self {
        let options = Self::options().set("max_connections", "20");
        let server = options.semi_synchronous().start().unwrap();
        server.add_user("application", "application").unwrap();
        server
    }

    fn freeze(&self) {
        self.freeze();
    }

    fn thaw(&self) {
        self.thaw();
    }

    fn count_sessions(&self) -> impl Future<Output = impl Count> + Send + 'static {
        let url = self.admin_url();
        async move { MySqlConnection::connect(&url).await.unwrap() }
    }

    async fn application_asks(&self) {
        let url = format!("mysql://application:application@{}", self.address());
        let mut connection = MySqlConnection::connect(&url).await.unwrap();
        sqlx::query("SELECT 1").execute(&mut connection).await.unwrap();
    }

    async fn lock_table(&self, table: &str) -> Box<dyn Any + Send> {
        let mut connection = MySqlConnection::connect(&self.admin_url()).await.unwrap();
        let lock = format!("LOCK TABLES {table} WRITE");
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
        Box::new(connection)
    }

    fn wait_for_replicas(&self, wait: bool) {
        self.wait_for_replica(wait).unwrap();
    }

    fn url_through(&self, port: u16) -> String {
        self.url_through(port)
    }

    fn address(&self) -> std::net::SocketAddr {
        self.address()
    }

    fn sql(&self, statements: &str) -> String {
        self.sql(statements).unwrap()
    }

    async fn try_connect(url: &str) -> Result<Arc<dyn DistributedLock>> {
        Ok(Arc::new(Mysql::connect(url).await?))
    }

    async fn fill(&self) -> Box<dyn Any + Send> {
        let mut connections = Vec::new();
        while let Ok(connection) = MySqlConnection::connect(&self.admin_url()).await {
            connections.push(connection);
        }
        Box::new(connections)
    }

    const FULL: [&str; 2] = ["Too many connections"; 2];
}

/// Makes a test of each rule for each server and mode.
macro_rules! on_each {
    ($($rule:ident),* $(,)?) => {
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let server = <lockwright_testbed::Postgres as $crate::server::Server>::start();
                    for mode in $crate::server::MODES {
                        super::$rule(&server, mode).await;
                    }
                }
            )*
        }

        mod mysql {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let server = <lockwright_testbed::MariaDb as $crate::server::Server>::start();
                    for mode in $crate::server::MODES {
                        super::$rule(&server, mode).await;
                    }
                }
            )*
        }
    };
}
pub(crate) use on_each;

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn claim(of: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(of),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        renewal_mode: RenewalMode::Auto,
    }
}

pub(crate) async fn granted(backend: &dyn DistributedLock, claim: &Claim) {
    match backend.acquire(claim, Wait::No).await.unwrap() {
        AcquireOutcome::Granted(_) => {}
        AcquireOutcome::Busy(busy) => panic!("{} is busy: {busy:?}", claim.name),
    }
}

/// Returns whether a claim is granted, and releases the hold.
pub(crate) async fn is_free(backend: &dyn DistributedLock, of: &str) -> bool {
    let claim = claim(of, LONG);
    let free =
        matches!(backend.acquire(&claim, Wait::No).await.unwrap(), AcquireOutcome::Granted(_));
    if free {
        backend.release(&claim, lockwright_core::ReleaseMode::Plain).await.unwrap();
    }
    free
}

pub(crate) async fn waiters(backend: &dyn DistributedLock, of: &str) -> u64 {
    backend.inspect(&name(of)).await.unwrap().waiters.unwrap_or_default()
}

pub(crate) fn in_time(time: Duration) -> Wait {
    Wait::Until(Clock::boot().now() + time)
}

/// Waits until `done`, and returns how long it took.
pub(crate) async fn within(
    limit: Duration,
    what: &str,
    mut done: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}");
        tokio::time::sleep(ms(5)).await;
    }
    start.elapsed()
}
