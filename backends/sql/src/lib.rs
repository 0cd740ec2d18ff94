//! SQL backends of [Lockwright](https://docs.rs/lockwright).
//!
//! | module | subject |
//! |---|---|
//! | [`sqlite`] | a database file shared by the processes of one machine; the embedded default |
//! | [`postgres`] | a PostgreSQL server |
//! | [`mysql`] | a MySQL or MariaDB server |
//!
//! The SQL is in `queries/*.sql` of each module, the tables are in `schema/`.
//!
//! SQLite is available only on Linux and Android. On other systems, the standard library has no
//! clock that runs during suspend and is shared by all processes.
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

/// Types for locks and fences in the application's own transaction. The functions are in `postgres`
/// and `mysql`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod transaction {
    pub use crate::server::transaction::{Outcome, Wait};
}

/// The version of sqlx whose connections the transaction functions take.
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
