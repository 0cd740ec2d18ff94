//! Locks and fences in the application's own transaction.
//!
//! # A lock of the transaction
//!
//! [`lock_in_transaction`] takes `pg_advisory_xact_lock` on the name's key until the transaction
//! ends. There is no renewal, no loss, and no fence.
//!
//! ```no_run
//! # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use lockwright_sql::postgres::lock_in_transaction;
//! use lockwright_sql::transaction::Wait;
//!
//! let mut tx = pool.begin().await?;
//! if lock_in_transaction(&mut tx, "orders/42", Wait::For(Duration::from_secs(2))).await?.is_locked() {
//!     // ... what only one may do ...
//!     tx.commit().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - The lock excludes other transactions, holds in the mode [`session`](super::Mode::Session), and
//!   other programs that lock the [key](#the-key-of-a-name), but no holds in the modes `lease` and
//!   `row`.
//! - A transaction may take one lock repeatedly, and several locks. Always take them in the same
//!   order: on a deadlock, one transaction gets an error after `deadlock_timeout`.
//! - The transaction must be `READ COMMITTED`, PostgreSQL's default. Higher levels are rejected:
//!   their statements see the state before the wait.
//! - The lock works behind a transaction pooler.
//!
//! # The key of a name
//!
//! An advisory lock has a 64-bit key. Lockwright uses the first 64 bits of the name's SHA-256.
//! Other programs can take the same lock:
//!
//! ```sql
//! SELECT pg_advisory_xact_lock(
//!     ('x' || substr(encode(sha256(convert_to('orders/42', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint);
//! ```
//!
//! Two names with the same key exclude each other, which is safe.
//!
//! # A fence
//!
//! The holder of a [`Guard`](lockwright_core::Guard) may be paused for longer than its TTL, and
//! then overwrite a later holder's data. [`check_fence`](super::check_fence) in the writing
//! transaction rejects that write.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_sql::postgres::check_fence;
//!
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let mut tx = pool.begin().await?;
//! check_fence(&mut tx, "orders/42", guard.fence()).await?;
//! // ... read, decide, write ...
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A second transaction with the same name waits for the first, and then sees its writes. Call
//! `check_fence` before reading anything that decides the writes.

use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Fence, LockName, Result};
use sqlx::PgConnection;

use super::dialect::{Postgresql, fetch_on};
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::bad_row;
use crate::server::fence_check;
use crate::server::sql::{Arguments, Sql, Value};
use crate::server::table::Tables;
use crate::server::transaction::{self, Limit, Outcome, Wait};

pub(super) const BACKEND: &str = "postgres-transaction";

const KEY: &str =
    "('x' || substr(encode(sha256(convert_to(:name, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint";

const SCHEMA: &str = include_str!("../../schema/postgres_transaction.sql");

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
/// After a drop, the server may still wait on the connection for up to five seconds. Drop the
/// transaction too: it is rolled back after the wait. An explicit `rollback()` returns the wait's
/// error, and the connection's next use rolls back. To stop the wait at once, close the connection,
/// and set `client_connection_check_interval` on the server.
pub async fn lock_in_transaction(tx: &mut PgConnection, name: &str, wait: Wait) -> Result<Outcome> {
    DEFAULT.lock(tx, name, wait).await
}

/// The functions of this module with other tables. Create one value and reuse it.
#[derive(Debug, Clone)]
pub struct InTransaction {
    tables: Tables,
    try_lock: Sql,
    wait: Sql,
    fence: Sql,
    pub(super) sweep: Sql,
}

transaction::in_transaction!(PgConnection, "the tables' schema. It must exist.");

impl InTransaction {
    fn of(tables: Tables) -> Self {
        let sql = |text: &str| Sql::new(&expand(&tables, text));
        Self {
            try_lock: sql(include_str!("queries/transaction_try.sql")),
            wait: sql(include_str!("queries/transaction_wait.sql")),
            fence: sql(include_str!("queries/check_fence.sql")),
            sweep: sql(include_str!("queries/transaction_sweep.sql")),
            tables,
        }
    }

    /// Returns the SQL that creates the table of fences.
    pub fn schema(&self) -> String {
        expand(&self.tables, SCHEMA)
    }

    /// Creates the table of fences unless it exists. Several clients may do so at once.
    ///
    /// # Errors
    /// [`Denied`](ErrorKind::Denied), [`InvalidConfig`](ErrorKind::InvalidConfig) for an unknown
    /// schema, [`Unavailable`](ErrorKind::Unavailable).
    ///
    /// # Cancel safety
    /// May be dropped at any time; the table may then remain.
    pub async fn make_tables(&self, connection: &mut PgConnection) -> Result<()> {
        // The query is one transaction, so the lock serializes concurrent creation.
        let text = format!("SELECT pg_advisory_xact_lock(5499258310474722403); {}", self.schema());
        fetch_on(connection, text).await.map(drop).map_err(|cause| failed(&cause))
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
        while let Some(slice) = limit.slice() {
            let slice_ms = ("slice_ms", Value::Int(millis(slice)));
            match run(tx, &self.wait, &[name, slice_ms]).await {
                Ok(_) => return Ok(Outcome::Locked),
                Err(cause) if is(&cause, LOCK_NOT_AVAILABLE) => {}
                Err(cause) => return Err(failed(&cause)),
            }
        }
        Ok(Outcome::Busy)
    }
}

fn expand(tables: &Tables, text: &str) -> String {
    tables.expand(&text.replace("{key}", KEY), Postgresql::QUOTE)
}

/// Executes SQL that begins with a savepoint. After an error, rolls back to the savepoint.
async fn run(tx: &mut PgConnection, sql: &Sql, arguments: Arguments<'_>) -> sqlx::Result<Vec<Row>> {
    let answer = fetch_on(tx, sql.render(arguments, Postgresql::literal)).await;
    if let Err(cause @ sqlx::Error::Database(_)) = &answer
        && !is(cause, NO_TRANSACTION)
        && !is(cause, FAILED_TRANSACTION)
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

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const NO_TRANSACTION: &str = "25P01";
const FAILED_TRANSACTION: &str = "25P02";
const LOCK_NOT_AVAILABLE: &str = "55P03";
const DEADLOCK: &str = "40P01";
const SERIALIZATION: &str = "40001";

fn is(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|found| found == code)
}

pub(super) fn failed(cause: &sqlx::Error) -> Error {
    let error = if is(cause, NO_TRANSACTION) {
        transaction::no_transaction("the lock, or the check")
    } else if is(cause, FAILED_TRANSACTION) {
        Error::invalid_input("a statement of this transaction has failed before; roll it back")
    } else if is(cause, DEADLOCK) {
        Error::unavailable(
            "a deadlock: the lock's holder waits for this transaction; roll it back and begin \
             again, and take several locks always in the same order",
        )
    } else if is(cause, SERIALIZATION) {
        Error::unavailable(
            "another transaction with this name was committed since this one began; roll it back \
             and begin again",
        )
    } else if is(cause, LOCK_NOT_AVAILABLE) {
        Error::unavailable(
            "another transaction holds this name, and the lock_timeout of this one has expired",
        )
    } else {
        return transaction::failed(cause, Postgresql::judge, BACKEND);
    };
    error.with_backend(BACKEND).with_source(cause.to_string())
}

/// Returns at least one millisecond, because zero disables the timeout.
fn millis(slice: Duration) -> i64 {
    i64::try_from(slice.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX).max(1)
}
