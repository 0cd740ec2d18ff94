//! Code shared by the databases with a server. A [`dialect::Dialect`] has the differences: SQL
//! files with the same parameters and columns, connecting, and error codes.
//!
//! | file | subject |
//! |---|---|
//! | `dialect` | the interface to one database |
//! | `sql` | SQL with named parameters |
//! | `pool` | connections, with a time limit for each request |
//! | `sessions` | the bound on a backend's server sessions |
//! | `abandoned` | ending abandoned sessions |
//! | `lease` | the backend trait, for holds that are rows |
//! | `held` | the backend trait, for holds in sessions |
//! | `holding` | conversion of rows to the trait's answers |
//! | `pass_on` | delegation to the backend of the mode |
//! | `schema` | creation of the tables |
//! | `table` | configurable table names |
//! | `config` | Lockwright's URL parameters |
//! | `errors` | effects of failed requests |
//! | `tls` | TLS errors |
//! | `doctor` | findings of every server |
//! | `transaction` | locks and fences in the application's own transaction |

pub(crate) mod abandoned;
pub(crate) mod config;
pub(crate) mod dialect;
pub(crate) mod doctor;
pub(crate) mod errors;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod lease;
pub(crate) mod pass_on;
pub(crate) mod pool;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod sql;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod transaction;

pub use config::Mode;
