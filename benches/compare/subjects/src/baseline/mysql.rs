use std::fmt::Write;
use std::time::Duration;

use lockwright_bench_protocol::Result;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, query, raw_sql};

use super::sql::{Lease, Server, key, token};

const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS bench_baseline_lease (
        name varbinary(255) PRIMARY KEY, token bigint NOT NULL, expires timestamp(6) NOT NULL
    ) ENGINE = InnoDB",
    "CREATE TABLE IF NOT EXISTS bench_baseline_row (name varbinary(255) PRIMARY KEY) ENGINE = InnoDB",
];

/// Disables gap locks, and prolongs timeouts.
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION innodb_lock_wait_timeout = 3600, wait_timeout = 28800";

const INSERT: &str = "INSERT IGNORE INTO bench_baseline_lease
    VALUES (?, ?, NOW(6) + INTERVAL ? MICROSECOND)";

/// Waiters queue for a named lock, so none polls.
const INSERT_IN_TURN: &str = "INSERT IGNORE INTO bench_baseline_lease
    SELECT ?, ?, SYSDATE(6) + INTERVAL ? MICROSECOND FROM DUAL WHERE GET_LOCK(?, 3600) = 1";

const DELETE: &str = "DELETE FROM bench_baseline_lease WHERE name = ? AND token = ?";

/// Releases the named lock before the commit, so that the next waiter's insert waits for the
/// commit.
const DELETE_IN_TURN: &str =
    "DELETE FROM bench_baseline_lease WHERE name = ? AND token = ? AND RELEASE_LOCK(?) = 1";

const RENEW: &str =
    "UPDATE bench_baseline_lease SET expires = NOW(6) + INTERVAL ? MICROSECOND WHERE token = ?";

pub(super) struct Mysql(MySqlConnectOptions);

impl Server for Mysql {
    type Connection = MySqlConnection;

    fn new(url: &str) -> Result<Self> {
        let options: MySqlConnectOptions = url.parse()?;
        Ok(Self(options.disable_statement_logging()))
    }

    async fn connect(&self) -> Result<MySqlConnection> {
        let mut connection = self.0.connect().await?;
        for table in TABLES {
            raw_sql(table).execute(&mut connection).await?;
        }
        raw_sql(SESSION).execute(&mut connection).await?;
        Ok(connection)
    }

    async fn insert(on: &mut MySqlConnection, lease: &Lease<'_>, in_turn: bool) -> Result<bool> {
        let insert = query(if in_turn { INSERT_IN_TURN } else { INSERT });
        let insert = insert.bind(lease.name).bind(token()).bind(micros(lease.ttl));
        let insert = if in_turn { insert.bind(lock(lease.name)) } else { insert };
        Ok(insert.execute(on).await?.rows_affected() == 1)
    }

    async fn delete(on: &mut MySqlConnection, name: &str, in_turn: bool) -> Result<bool> {
        let delete = query(if in_turn { DELETE_IN_TURN } else { DELETE }).bind(name).bind(token());
        let delete = if in_turn { delete.bind(lock(name)) } else { delete };
        Ok(delete.execute(on).await?.rows_affected() == 1)
    }

    async fn renew(on: &mut MySqlConnection, ttl: Duration) -> Result<u64> {
        Ok(query(RENEW).bind(micros(ttl)).bind(token()).execute(on).await?.rows_affected())
    }

    async fn take(on: &mut MySqlConnection, name: &str, waits: bool) -> Result<bool> {
        let patience = if waits { 3600 } else { 0 };
        let take = query("SELECT GET_LOCK(?, ?) = 1").bind(lock(name)).bind(patience);
        Ok(take.fetch_one(on).await?.try_get(0)?)
    }

    async fn free(on: &mut MySqlConnection, name: &str) -> Result<bool> {
        let free = query("SELECT RELEASE_LOCK(?) = 1").bind(lock(name));
        Ok(free.fetch_one(on).await?.try_get(0)?)
    }

    async fn lock_row(on: &mut MySqlConnection, name: &str) -> Result<()> {
        let mut hex = String::with_capacity(2 * name.len());
        for byte in name.bytes() {
            let _ = write!(hex, "{byte:02x}");
        }
        let lock =
            format!("BEGIN; SELECT 1 FROM bench_baseline_row WHERE name = x'{hex}' FOR UPDATE");
        while raw_sql(AssertSqlSafe(lock.clone())).fetch_all(&mut *on).await?.is_empty() {
            Self::unlock_row(on).await?;
            let make = "INSERT IGNORE INTO bench_baseline_row VALUES (?)";
            query(make).bind(name).execute(&mut *on).await?;
        }
        Ok(())
    }

    async fn unlock_row(on: &mut MySqlConnection) -> Result<()> {
        raw_sql("ROLLBACK").execute(on).await?;
        Ok(())
    }

    async fn ping(on: &mut MySqlConnection) -> Result<()> {
        query("SELECT 1").execute(on).await?;
        Ok(())
    }
}

/// Returns a hash: `GET_LOCK` limits a name's length and ignores its case.
fn lock(name: &str) -> String {
    format!("{:016x}", key(name))
}

fn micros(ttl: Duration) -> i64 {
    ttl.as_micros() as i64
}
