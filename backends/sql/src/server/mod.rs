//! Code shared by PostgreSQL and MySQL. [`dialect::Dialect`] has their differences.

pub(crate) mod abandoned;
pub(crate) mod config;
pub(crate) mod dialect;
pub(crate) mod doctor;
pub(crate) mod errors;
pub(crate) mod hold_row;
pub(crate) mod lease;
pub(crate) mod pool;
pub(crate) mod schema;
pub(crate) mod session_limit;
pub(crate) mod session_lock;
pub(crate) mod sql;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod transaction;

pub use config::Mode;
