//! SQL backends of [Lockwright](https://docs.rs/lockwright).
//!
//! # The program's pool
//!
//! With `from_options`, Lockwright opens its own connections to PostgreSQL or MySQL, without the
//! pool's callbacks such as `after_connect`. It changes settings of their sessions, and ends a
//! session whose answer is late.
//!
//! With `from_pool`, a backend uses the connections of the program's pool:
//!
//! - A request waits while the program uses all connections, and fails if none is free in time. So
//!   a hold is lost if the program uses all of them for too long, or closes the pool.
//! - Each backend uses at most 8 connections, one of them only for renewals if the pool has more
//!   than one. So share one backend.
//! - A change whose answer is late is `Indeterminate`.
//! - sqlx logs statements, with the tokens of holds, unless the pool's options have
//!   `disable_statement_logging`.
//!
//! # SQLite
//!
//! The SQLite backend needs Linux, Android or macOS (untested), for a boot clock that processes share.
#![forbid(unsafe_code)]
// With one feature, parts of the shared modules are unused.
#![cfg_attr(not(all(feature = "mysql", feature = "postgres")), allow(dead_code, unused_imports))]

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod kind;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite", target_os = "linux"))]
mod properties;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod queries;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(all(
    feature = "sqlite",
    any(target_os = "linux", target_os = "android", target_os = "macos")
))]
pub mod sqlite;

/// Locks and fences in the application's own transaction, on PostgreSQL or
/// MySQL.
///
/// Only one transaction at a time can lock a name:
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use lockwright_sql::postgres::lock_in_transaction;
/// use lockwright_sql::transaction::Wait;
///
/// let mut tx = pool.begin().await?;
/// if lock_in_transaction(&mut tx, "orders/42", Wait::For(Duration::from_secs(2))).await?.is_locked() {
///     // ... what only one may do ...
///     tx.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Such a lock has no renewal, no loss, and no fence. A transaction may take one lock repeatedly,
/// and several locks. Always take them in the same order, to avoid deadlocks.
///
/// The holder of a [`Guard`](lockwright_core::Guard) may be paused for longer than its TTL, and
/// then overwrite a later holder's data. `check_fence(&mut tx, &guard.fenced())` in the writing
/// transaction rejects that write. A second transaction that checks a fence of the same name waits
/// for the first, and then sees its writes. Check the fence before you read the data on which your
/// writes depend.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod transaction {
    pub use crate::server::transaction::{Outcome, Wait};
}

/// The version of sqlx that the transaction functions use.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use sqlx;

#[cfg(feature = "mysql")]
pub use mysql::Mysql;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;

#[cfg(all(
    feature = "sqlite",
    any(target_os = "linux", target_os = "android", target_os = "macos")
))]
pub use sqlite::Sqlite;
