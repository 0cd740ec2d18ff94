//! SQL backends of [Lockwright](https://docs.rs/lockwright).
//!
//! | module | subject |
//! |---|---|
//! | [`sqlite`] | a database file that the processes of one machine share |
//! | [`postgres`] | a PostgreSQL server |
//! | [`mysql`] | a MySQL or MariaDB server |
//!
//! The SQLite backend needs Linux or Android, for `CLOCK_BOOTTIME`.
#![forbid(unsafe_code)]

#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    all(feature = "sqlite", any(target_os = "linux", target_os = "android"))
))]
mod kind;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite", target_os = "linux"))]
mod properties;
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    all(feature = "sqlite", any(target_os = "linux", target_os = "android"))
))]
mod queries;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
pub mod sqlite;

/// The wait and the outcome of a lock in the application's own transaction.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod transaction {
    pub use crate::server::transaction::{Outcome, Wait};
}

/// The version of sqlx that the transaction functions use.
#[cfg(any(
    feature = "mysql",
    feature = "postgres",
    all(feature = "sqlite", any(target_os = "linux", target_os = "android"))
))]
pub use sqlx;

#[cfg(feature = "mysql")]
pub use mysql::Mysql;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;

#[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
pub use sqlite::Sqlite;
