//! Fences in the application's own transaction, for data in a SQLite file that isn't the lock file.
//!
//! ```no_run
//! # async fn example(locks: lockwright_core::Locks, pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! use lockwright_sql::sqlite::{check_fence, make_fence_table};
//!
//! make_fence_table(&mut *pool.acquire().await?).await?; // once
//!
//! let guard = locks.mutex("orders/42").acquire().await?;
//! let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
//! check_fence(&mut tx, &guard.fenced()).await?; // Lost: a later holder has written
//! // ... read, decide, write ...
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! `BEGIN IMMEDIATE` or [`check_fence`] must precede any read, so that a second transaction sees
//! the writes of the first.

use lockwright_core::fencing::Fenced;
use lockwright_core::{Error, ErrorKind, Fence, Result};
use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{Executor, Row, Transaction};

use super::errors::{is_busy, is_refused, lacks_a_table};

const BACKEND: &str = "sqlite-transaction";

/// The SQL of [`check_fence`], for another driver or language: one statement, for the transaction
/// of the write. With autocommit, it protects nothing, and no error reports that.
/// [`make_fence_table`] creates the table.
///
/// `?1` is the name, a text, and `?2` the fence, an integer. The row has the highest fence. If that
/// fence is above `?2`, a later holder has written: roll the transaction back.
pub const FENCE_CHECK: &str = include_str!("queries/check_fence.sql");

/// Rejects the transaction of a holder if a later holder has already written.
///
/// Records an accepted fence as part of the transaction. All writers of the same data must hold
/// the same lock. The namespace is part of its name. [`make_fence_table`] creates the table.
///
/// # Errors
/// - [`Lost`](ErrorKind::Lost) with [`Superseded`](lockwright_core::Reason::Superseded): a later
///   holder has written. Roll the transaction back.
/// - [`InvalidInput`](ErrorKind::InvalidInput): a fence above [`Fence::MAX`].
/// - [`InvalidConfig`](ErrorKind::InvalidConfig): the table doesn't exist.
/// - [`Denied`](ErrorKind::Denied): the file can't be written.
/// - [`Unavailable`](ErrorKind::Unavailable): another transaction has been writing for longer than
///   the connection's `busy_timeout`, or has written after `tx` began to read. Or access to the
///   file failed.
///
/// # Cancel safety
/// May be dropped. The transaction must then be rolled back or dropped.
pub async fn check_fence(tx: &mut Transaction<'_, Sqlite>, fenced: &Fenced) -> Result<()> {
    let fence = fenced.fence.checked().map_err(|error| error.with_backend(BACKEND))?;
    let number = fence.get() as i64; // a checked fence is far below `i64::MAX`
    let row =
        sqlx::query(FENCE_CHECK).bind(fenced.name.as_str()).bind(number).fetch_one(&mut **tx).await;
    let highest: i64 = row
        .and_then(|row| row.try_get(0))
        .map_err(|cause| failed(cause).with_name(&fenced.name))?;
    if highest > number {
        let highest = Fence::new(highest.unsigned_abs());
        return Err(fenced.superseded(highest).with_backend(BACKEND));
    }
    Ok(())
}

/// Creates the table of [`check_fence`] unless it exists.
///
/// # Errors
/// [`Denied`](ErrorKind::Denied) and [`Unavailable`](ErrorKind::Unavailable), as [`check_fence`].
///
/// # Cancel safety
/// May be dropped. The table may then exist.
pub async fn make_fence_table(connection: &mut SqliteConnection) -> Result<()> {
    let made = connection.execute(include_str!("../../schema/sqlite_transaction.sql")).await;
    made.map(drop).map_err(failed)
}

/// The result is never `Indeterminate`: a statement has no effect before the commit.
fn failed(cause: sqlx::Error) -> Error {
    let (kind, message) = if is_busy(&cause) {
        (
            ErrorKind::Unavailable,
            "another transaction writes to the file; begin this one by BEGIN IMMEDIATE, and give its \
             connection a busy_timeout",
        )
    } else if is_refused(&cause) {
        (ErrorKind::Denied, "the file can't be written; check its permissions")
    } else if lacks_a_table(&cause) {
        (
            ErrorKind::InvalidConfig,
            "the file has no table lockwright_fence, or another one of that name; call make_fence_table \
             once",
        )
    } else {
        (ErrorKind::Unavailable, "the file failed")
    };
    Error::new(kind, message).with_backend(BACKEND).with_source(cause)
}
