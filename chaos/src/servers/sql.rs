use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_testbed::{self as testbed, MariaDb, Proxy, wait};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection, SqliteConnection};
use tokio::runtime::{Builder, Runtime};

use super::{Lock, Locking, Result, Server, Servers, make_tables};
use crate::configuration::Configuration;

const LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Session<C> {
    runtime: Runtime,
    connection: C,
}

pub(super) trait Queries: Connection {
    async fn run(&mut self, statement: String) -> sqlx::Result<()>;
    async fn number(&mut self, query: String) -> sqlx::Result<i64>;
}

macro_rules! queries {
    ($($connection:ty),+) => {$(
        impl Queries for $connection {
            async fn run(&mut self, statement: String) -> sqlx::Result<()> {
                self.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await.map(drop)
            }

            async fn number(&mut self, query: String) -> sqlx::Result<i64> {
                sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(self).await
            }
        }
    )+};
}
queries!(PgConnection, MySqlConnection, SqliteConnection);

pub(super) trait Dialect: Queries {
    const SESSIONS: &'static str;
    const WAITING: &'static str;
    /// In microseconds.
    const CLOCK: &'static str;
    const LOCK_TABLE: &'static str;
    const LIMITS: [&'static str; 2];
}

impl Dialect for PgConnection {
    const SESSIONS: &'static str =
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright'";
    const WAITING: &'static str = "SELECT count(*) FROM pg_stat_activity \
         WHERE usename = 'lockwright' AND wait_event_type = 'Lock'";
    const CLOCK: &'static str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    const LOCK_TABLE: &'static str = "LOCK TABLE TABLE_NAME";
    const LIMITS: [&'static str; 2] =
        ["ALTER ROLE lockwright CONNECTION LIMIT -1", "ALTER ROLE lockwright CONNECTION LIMIT 1"];
}

impl Dialect for MySqlConnection {
    const SESSIONS: &'static str =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'lockwright'";
    const WAITING: &'static str = "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE user = 'lockwright' AND (state LIKE 'Waiting for table%' OR id IN \
         (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx \
          WHERE trx_state = 'LOCK WAIT'))";
    const CLOCK: &'static str = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)";
    const LOCK_TABLE: &'static str = "LOCK TABLES TABLE_NAME WRITE";
    const LIMITS: [&'static str; 2] = [
        "ALTER USER lockwright@'%' WITH MAX_USER_CONNECTIONS 0",
        "ALTER USER lockwright@'%' WITH MAX_USER_CONNECTIONS 1",
    ];
}

impl<C: Queries> Session<C> {
    pub(super) fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = async { tokio::time::timeout(LIMIT, C::connect(url)).await };
        let connection = runtime.block_on(connect)??;
        Ok(Self { runtime, connection })
    }

    pub(super) fn run(&mut self, statement: &str) -> Result<()> {
        let running = self.connection.run(statement.to_owned());
        Ok(self.runtime.block_on(async { tokio::time::timeout(LIMIT, running).await })??)
    }

    pub(super) fn number(&mut self, query: &str) -> Result<i64> {
        let running = self.connection.number(query.to_owned());
        Ok(self.runtime.block_on(async { tokio::time::timeout(LIMIT, running).await })??)
    }
}

impl<C: Dialect> Session<C> {
    fn locking(mut self, what: Lock<'_>, table: &str) -> Result<Self> {
        self.run("BEGIN")?;
        match what {
            Lock::Table => self.run(&C::LOCK_TABLE.replace("TABLE_NAME", table))?,
            Lock::Row(name) => {
                let row = format!("FROM {table} WHERE name = '{name}' FOR UPDATE");
                let locked = wait::until(Duration::from_secs(2), || {
                    self.number(&format!("SELECT fence {row}")).ok()
                });
                locked.ok_or_else(|| format!("the row of {name} can't be locked"))?;
            }
        }
        Ok(self)
    }

    fn clock_ahead(&mut self) -> Result<i64> {
        let theirs = self.number(C::CLOCK)?;
        let ours = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64;
        Ok((theirs - ours) / 1_000)
    }

    fn leaks(&mut self, queries: &[(&str, String)]) -> Result<Vec<String>> {
        let mut leaks = Vec::new();
        let sessions = ("sessions", C::SESSIONS.to_owned());
        for (what, query) in queries.iter().chain([&sessions]) {
            let mut left = 0;
            let gone = wait::until(Duration::from_secs(5), || {
                left = self.number(query).unwrap_or(-1);
                (left == 0).then_some(())
            });
            if gone.is_none() {
                leaks.push(format!("{left} {what}"));
            }
        }
        Ok(leaks)
    }
}

struct LockingSession<C> {
    watching: Session<C>,
    _locking: Session<C>,
}

impl<C: Dialect + Send> Locking for LockingSession<C> {
    fn waiting(&mut self) -> usize {
        self.watching.number(C::WAITING).unwrap_or(0) as usize
    }
}

fn table(configuration: Configuration) -> &'static str {
    if configuration.holds_by_connection() { "lockwright_hold" } else { "lockwright_lease" }
}

fn held_rows(configuration: Configuration, prefix: &str, now: &str) -> Vec<(&'static str, String)> {
    if configuration.holds_by_connection() {
        return Vec::new();
    }
    let count = |table: &str, and: &str| {
        format!(
            "SELECT count(*) FROM lockwright_{table} \
             WHERE name LIKE '{prefix}%' AND expires > ({now}) {and}"
        )
    };
    vec![
        ("held rows", count("lease", "AND token IS NOT NULL")),
        // Writers' rows aren't leaks: they expire 3 s after a waiter's last poll.
        ("rows of readers and permits", count("shared_holder", "AND mode <> 'exclusive'")),
    ]
}

macro_rules! server {
    ($name:ident, $server:ty, $connection:ty, $options:expr) => {
        pub(super) struct $name {
            server: $server,
            proxy: Proxy,
            configuration: Configuration,
        }

        impl $name {
            pub(super) fn start(configuration: Configuration) -> Result<Self> {
                let server = $options.start()?;
                let proxy = Proxy::start(server.address())?;
                let this = Self { server, proxy, configuration };
                make_tables(&this.direct_url())?;
                Ok(this)
            }

            fn session(&self) -> Result<Session<$connection>> {
                Session::open(&self.server.admin_url())
            }

            fn of_mode(&self, url: String) -> String {
                match self.configuration.mode() {
                    Some(mode) => format!("{url}?mode={mode}"),
                    None => url,
                }
            }
        }

        impl Servers for $name {
            fn url(&self) -> String {
                self.of_mode(self.server.url_through(self.proxy.port()))
            }

            fn direct_url(&self) -> String {
                self.of_mode(self.server.url())
            }

            fn proxies(&self) -> Vec<&Proxy> {
                vec![&self.proxy]
            }

            fn servers(&mut self) -> Vec<&mut dyn Server> {
                vec![&mut self.server]
            }

            fn after_data_loss(&mut self) -> Result<()> {
                make_tables(&self.direct_url())
            }

            fn limit_connections(&mut self, on: bool) -> Result<()> {
                let limit = <$connection as Dialect>::LIMITS[usize::from(on)];
                self.session()?.run(limit)?;
                if on {
                    self.server.terminate_sessions()?;
                }
                Ok(())
            }

            fn lock(&mut self, what: Lock<'_>) -> Result<Box<dyn Locking>> {
                let watching = self.session()?;
                let locking = self.session()?.locking(what, table(self.configuration))?;
                Ok(Box::new(LockingSession { watching, _locking: locking }))
            }

            fn clock_ahead(&mut self) -> Result<i64> {
                self.session()?.clock_ahead()
            }

            fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
                let now = <$connection as Dialect>::CLOCK;
                self.session()?.leaks(&held_rows(self.configuration, prefix, now))
            }
        }
    };
}

server!(Postgres, testbed::Postgres, PgConnection, testbed::Postgres::options());
server!(Mysql, MariaDb, MySqlConnection, MariaDb::options());
