use std::time::Duration;

use lockwright_bench_protocol::Result;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, query, raw_sql};

use super::sql::{Lease, Server, key, token};

const SCHEMA: &str = "
    SELECT pg_advisory_xact_lock(0);
    CREATE TABLE IF NOT EXISTS bench_baseline_lease (
        name text COLLATE \"C\" PRIMARY KEY, token bigint NOT NULL, expires timestamptz NOT NULL
    );
    CREATE TABLE IF NOT EXISTS bench_baseline_row (name text COLLATE \"C\" PRIMARY KEY);";

const PREPARE: &str = "SET client_min_messages = warning;
    PREPARE bench_baseline_row AS SELECT 1 FROM bench_baseline_row WHERE name = $1 FOR UPDATE";

const INSERT: &str =
    "INSERT INTO bench_baseline_lease VALUES ($1, $2, now() + $3 * interval '1 ms')
    ON CONFLICT DO NOTHING";

/// Waiters queue for an advisory lock, so none polls.
const INSERT_IN_TURN: &str = "INSERT INTO bench_baseline_lease
    SELECT $1, $2, clock_timestamp() + $3 * interval '1 ms' FROM (SELECT pg_advisory_lock($4)) AS turn
    ON CONFLICT DO NOTHING";

const DELETE: &str = "DELETE FROM bench_baseline_lease WHERE name = $1 AND token = $2";

/// Unlocks before the commit, so that the next waiter's insert waits for the commit.
const DELETE_IN_TURN: &str = "
    WITH gone AS (DELETE FROM bench_baseline_lease WHERE name = $1 AND token = $2 RETURNING 1)
    SELECT 1 FROM gone WHERE pg_advisory_unlock($3)";

const RENEW: &str =
    "UPDATE bench_baseline_lease SET expires = now() + $2 * interval '1 ms' WHERE token = $1";

pub(super) struct Postgres(PgConnectOptions);

impl Server for Postgres {
    type Connection = PgConnection;

    fn new(url: &str) -> Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        Ok(Self(options.extra_float_digits(None).disable_statement_logging()))
    }

    async fn connect(&self) -> Result<PgConnection> {
        let mut connection = self.0.connect().await?;
        raw_sql(SCHEMA).execute(&mut connection).await?;
        raw_sql(PREPARE).execute(&mut connection).await?;
        Ok(connection)
    }

    async fn insert(on: &mut PgConnection, lease: &Lease<'_>, in_turn: bool) -> Result<bool> {
        let insert = query(if in_turn { INSERT_IN_TURN } else { INSERT });
        let insert = insert.bind(lease.name).bind(token()).bind(millis(lease.ttl));
        let insert = if in_turn { insert.bind(key(lease.name)) } else { insert };
        Ok(insert.execute(on).await?.rows_affected() == 1)
    }

    async fn delete(on: &mut PgConnection, name: &str, in_turn: bool) -> Result<bool> {
        let delete = query(if in_turn { DELETE_IN_TURN } else { DELETE }).bind(name).bind(token());
        let delete = if in_turn { delete.bind(key(name)) } else { delete };
        Ok(delete.execute(on).await?.rows_affected() == 1)
    }

    async fn renew(on: &mut PgConnection, ttl: Duration) -> Result<u64> {
        Ok(query(RENEW).bind(token()).bind(millis(ttl)).execute(on).await?.rows_affected())
    }

    async fn take(on: &mut PgConnection, name: &str, waits: bool) -> Result<bool> {
        if waits {
            query("SELECT pg_advisory_lock($1)").bind(key(name)).execute(on).await?;
            return Ok(true);
        }
        let take = query("SELECT pg_try_advisory_lock($1)").bind(key(name));
        Ok(take.fetch_one(on).await?.try_get(0)?)
    }

    async fn free(on: &mut PgConnection, name: &str) -> Result<bool> {
        let free = query("SELECT pg_advisory_unlock($1)").bind(key(name));
        Ok(free.fetch_one(on).await?.try_get(0)?)
    }

    async fn lock_row(on: &mut PgConnection, name: &str) -> Result<()> {
        let quoted = name.replace('\'', "''");
        let lock = format!("BEGIN; EXECUTE bench_baseline_row('{quoted}')");
        while raw_sql(AssertSqlSafe(lock.clone())).fetch_all(&mut *on).await?.is_empty() {
            Self::unlock_row(on).await?;
            let make = "INSERT INTO bench_baseline_row VALUES ($1) ON CONFLICT DO NOTHING";
            query(make).bind(name).execute(&mut *on).await?;
        }
        Ok(())
    }

    async fn unlock_row(on: &mut PgConnection) -> Result<()> {
        // Unlike a commit, a rollback doesn't wait for the disk.
        raw_sql("ROLLBACK").execute(on).await?;
        Ok(())
    }

    async fn ping(on: &mut PgConnection) -> Result<()> {
        query("SELECT 1").execute(on).await?;
        Ok(())
    }
}

fn millis(ttl: Duration) -> i64 {
    ttl.as_millis() as i64
}
