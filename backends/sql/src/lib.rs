//! SQL backends of [Lockwright](https://docs.rs/lockwright).
//!
//! | module | subject |
//! |---|---|
//! | [`sqlite`] | a database file shared by the processes of one machine; the embedded default |
//! | [`postgres`] | a PostgreSQL server |
//! | [`mysql`] | a MySQL or MariaDB server |
//!
//! Each database is a module with the same plan: `mod` (what it is and promises), `options` (how
//! to connect), `backend` (the trait), `statements` and `queries/*.sql` (what goes to the
//! database), `wakeup`, `doctor`; its tables stand in `schema/`.
//!
//! The SQLite backend is there on Linux and Android alone: elsewhere the standard library has no
//! clock that runs while the machine sleeps and that all processes share.
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
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(all(feature = "sqlite", any(target_os = "linux", target_os = "android")))]
pub mod sqlite;

/// Locks and fences in a transaction of the application's own, as far as it is the same for all
/// databases. The functions are in `postgres` and `mysql`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod transaction {
    pub use crate::server::transaction::{Outcome, Wait};
}

/// The sqlx whose connections the functions for transactions take.
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
