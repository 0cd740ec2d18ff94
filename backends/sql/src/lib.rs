//! SQL backends of [Lockwright](https://docs.rs/lockwright).
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
/// The holder of a [`Guard`](lockwright_core::Guard) may be paused for longer than its TTL, and
/// then overwrite a later holder's data. `check_fence` in the writing transaction rejects that
/// write:
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(locks: lockwright_core::Locks, pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use lockwright_sql::postgres::check_fence;
///
/// let guard = locks.mutex("orders/42").acquire().await?;
/// let mut tx = pool.begin().await?;
/// check_fence(&mut tx, &guard.fenced()).await?;
/// // ... read, decide, write ...
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
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
