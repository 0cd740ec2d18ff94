//! Code shared by PostgreSQL and MySQL. [`dialect::Dialect`] has their differences.

pub(crate) mod abandoned;
pub(crate) mod borrowed;
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

pub(crate) use abandoned::{Opened, ServerSession};
pub(crate) use borrowed::Borrowed;
pub use config::Mode;
pub(crate) use dialect::{BadRow, Cell, Dialect, Row};
pub(crate) use errors::{Effect, Failure, Verdict, bad_row};
pub(crate) use lease::StatementTexts;
pub(crate) use pool::{Limits, Pool, Sending};
pub(crate) use session_limit::{SessionLimit, SessionPermit, Use};
pub(crate) use sql::{Arguments, Placeholder, Prepared, Sql, Value};
pub(crate) use table::Tables;
