//! Locks and fences in the application's own transaction: see [`transaction`](crate::transaction).
//!
//! # A lock of the transaction
//!
//! [`lock_in_transaction`] takes `pg_advisory_xact_lock` on the name's key until the transaction
//! ends.
//!
//! - The lock excludes other transactions, holds in the mode [`session`](super::Mode::Session), and
//!   other programs that lock the [key](#the-key-of-a-name), but not holds in the modes `lease` and
//!   `row`.
//! - On a deadlock, one transaction gets an error after `deadlock_timeout`.
//! - The transaction must be `READ COMMITTED`, PostgreSQL's default. At higher levels, which are
//!   rejected, statements see the state before the wait.
//! - The lock works behind a transaction pooler.
//!
//! # The key of a name
//!
//! An advisory lock's key has 64 bits: here, the first 64 bits of the name's SHA-256. Programs
//! without Lockwright can take the same lock:
//!
//! ```sql
//! SELECT pg_advisory_xact_lock(
//!     ('x' || substr(encode(sha256(convert_to('orders/42', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint);
//! ```
//!
//! Two names with the same key exclude each other, which is safe.

use std::time::Duration;

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, LockName, Result};
use sqlx::PgConnection;

use super::dialect::{DEADLOCK, LOCK_NOT_AVAILABLE, Postgresql, code, fetch_on};
use crate::server::transaction::{Limit, Outcome, Wait};
use crate::server::{Arguments, BadRow, Dialect, Row, Sql, Tables, Value, bad_row, transaction};

const BACKEND: &str = "postgres-transaction";

const KEY: &str =
    "('x' || substr(encode(sha256(convert_to(:name, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint";

const SCHEMA: &str = include_str!("../../schema/postgres_transaction.sql");

const FENCE_CHECK: &str = include_str!("queries/check_fence.sql");

const ROLL_BACK: &str = "ROLLBACK TO SAVEPOINT lockwright; RELEASE SAVEPOINT lockwright";

/// Locks a name in the application's own transaction, until the transaction ends.
///
/// The transaction stays usable even after an error, unless the connection broke. Its
/// `lock_timeout` is unchanged.
///
/// # Errors
/// - [`InvalidInput`](ErrorKind::InvalidInput): an invalid [name](LockName), no open transaction, a
///   failed transaction, or a level other than `READ COMMITTED`.
/// - [`Unsupported`](ErrorKind::Unsupported): the server is a replica.
/// - [`Unavailable`](ErrorKind::Unavailable): a deadlock, the user's `statement_timeout`, or a
///   broken connection, which ends the transaction.
///
/// # Cancel safety
/// After a drop, the server may still wait on the connection for up to five seconds, or for a second
/// more than its `deadlock_timeout` if that is longer. A `client_connection_check_interval` of the
/// server ends the wait when the connection closes. Drop the transaction: it is rolled back after
/// the wait. An explicit `rollback()` returns the wait's error, and the connection's next use rolls
/// back.
pub async fn lock_in_transaction(tx: &mut PgConnection, name: &str, wait: Wait) -> Result<Outcome> {
    DEFAULT.lock(tx, name, wait).await
}

/// The functions of this module, for tables with a chosen prefix and schema. Create one and reuse
/// it.
#[derive(Debug, Clone)]
pub struct InTransaction {
    tables: Tables,
    try_lock: Sql,
    wait: Sql,
    fence: Sql,
    sweep: Sql,
}

transaction::in_transaction!(Postgresql, PgConnection, "the tables' schema. It must exist.");

impl InTransaction {
    fn of(tables: Tables) -> Self {
        let expand = |text: &str| tables.expand(&text.replace("{key}", KEY), Postgresql::QUOTE);
        let sql = |text: &str| Sql::new(&expand(text));
        Self {
            try_lock: sql(include_str!("queries/transaction_try.sql")),
            wait: sql(include_str!("queries/transaction_wait.sql")),
            fence: sql(&format!(
                "SAVEPOINT lockwright;\n{FENCE_CHECK};\nRELEASE SAVEPOINT lockwright"
            )),
            sweep: sql(include_str!("queries/transaction_sweep.sql")),
            tables,
        }
    }

    /// Returns the SQL of [`check_fence`](check_fence()), for another driver or language: one
    /// statement, for the transaction of the write. With autocommit, it protects nothing, and no
    /// error reports that. [`make_tables`](Self::make_tables) creates the table.
    ///
    /// `$1` is the name, a text, and `$2` the fence, a `bigint`. The row has the highest fence. If
    /// that fence is above `$2`, a later holder has written: roll the transaction back.
    ///
    /// ```
    /// let sql = lockwright_sql::postgres::InTransaction::new().fence_check();
    /// assert_eq!(
    ///     sql,
    ///     "INSERT INTO \"lockwright_fence\" AS seen (name, fence, updated) \
    ///      VALUES ($1, $2, clock_timestamp()) \
    ///      ON CONFLICT (name) DO UPDATE SET \
    ///      updated = CASE WHEN seen.fence <= EXCLUDED.fence THEN EXCLUDED.updated ELSE seen.updated END, \
    ///      fence = greatest(seen.fence, EXCLUDED.fence) \
    ///      RETURNING seen.fence"
    /// );
    /// ```
    pub fn fence_check(&self) -> String {
        let sql = Sql::new(&self.tables.expand(FENCE_CHECK, Postgresql::QUOTE));
        sql.with_placeholders(Postgresql::PLACEHOLDER).text.to_string()
    }

    async fn make(&self, connection: &mut PgConnection) -> Result<()> {
        // The query is one transaction, so the lock makes clients create tables one after another.
        let text = format!("SELECT pg_advisory_xact_lock(5499258310474722403); {}", self.schema());
        fetch_on(connection, text).await.map(drop).map_err(|cause| failed(&cause))
    }

    async fn sweep_tables(
        &self,
        connection: &mut PgConnection,
        arguments: Arguments<'_>,
    ) -> Result<u64> {
        let text = self.sweep.render(arguments, Postgresql::literal);
        let rows = fetch_on(connection, text).await.map_err(|cause| failed(&cause))?;
        transaction::swept(&rows, BACKEND)
    }

    async fn lock_name(
        &self,
        tx: &mut PgConnection,
        name: &LockName,
        limit: &Limit,
    ) -> Result<Outcome> {
        let name = ("name", Value::Text(name.as_str()));
        let rows = run(tx, &self.try_lock, &[name]).await.map_err(|cause| failed(&cause))?;
        if tried(&rows)? {
            return Ok(Outcome::Locked);
        }
        while let (Some(slice), Some(left)) = (limit.slice(), limit.left()) {
            let slice_ms = ("slice_ms", Value::Int(millis(slice)));
            let left_ms = ("left_ms", Value::Int(millis(left)));
            match run(tx, &self.wait, &[name, slice_ms, left_ms]).await {
                Ok(_) => return Ok(Outcome::Locked),
                Err(cause) if code(&cause).as_deref() == Some(LOCK_NOT_AVAILABLE) => {}
                Err(cause) => return Err(failed(&cause)),
            }
        }
        Ok(Outcome::Busy)
    }
}

/// Executes SQL that begins with a savepoint, to which an error rolls back.
async fn run(tx: &mut PgConnection, sql: &Sql, arguments: Arguments<'_>) -> sqlx::Result<Vec<Row>> {
    let answer = fetch_on(tx, sql.render(arguments, Postgresql::literal)).await;
    if let Err(cause) = &answer
        && code(cause).is_some_and(|code| code != NO_TRANSACTION && code != FAILED_TRANSACTION)
    {
        fetch_on(tx, ROLL_BACK.to_owned()).await?;
    }
    answer
}

fn tried(rows: &[Row]) -> Result<bool> {
    let bad = |bad| bad_row(bad, BACKEND);
    let row = rows.last().ok_or(BadRow).map_err(bad)?;
    if row.bool(2).map_err(bad)? {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "this server is a replica, and a lock on it excludes no transaction on its primary; \
             begin the transaction there",
        )
        .with_backend(BACKEND));
    }
    let isolation = row.text(1).map_err(bad)?.unwrap_or_default();
    if !matches!(isolation, "read committed" | "read uncommitted") {
        return Err(Error::invalid_input(format!(
            "this transaction is {isolation:?}: after the wait it would still read old rows; \
             begin it as READ COMMITTED, or hold a mutex from before it begins"
        ))
        .with_backend(BACKEND));
    }
    row.bool(0).map_err(bad)
}

const NO_TRANSACTION: &str = "25P01";
const FAILED_TRANSACTION: &str = "25P02";
const SERIALIZATION: &str = "40001";

fn failed(cause: &sqlx::Error) -> Error {
    let error = match code(cause).as_deref() {
        Some(NO_TRANSACTION) => transaction::no_transaction("the lock, or the check"),
        Some(FAILED_TRANSACTION) => {
            Error::invalid_input("a statement of this transaction has failed before; roll it back")
        }
        Some(DEADLOCK) => Error::unavailable(
            "a deadlock: the lock's holder waits for this transaction; roll it back and begin \
             again, and take several locks always in the same order",
        ),
        Some(SERIALIZATION) => Error::unavailable(
            "another transaction with this name was committed since this one began; roll it back \
             and begin again",
        ),
        Some(LOCK_NOT_AVAILABLE) => Error::unavailable(
            "another transaction holds this name, and the lock_timeout of this one has expired",
        ),
        _ => return transaction::failed::<Postgresql>(cause, BACKEND),
    };
    error.with_backend(BACKEND).with_source(cause.to_string())
}

/// Returns at least 1, because 0 disables the timeout, and at most the server's limit.
fn millis(wait: Duration) -> i64 {
    i32::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX).max(1).into()
}
