//! What the databases with a server have in common: once, for all of them.
//!
//! What differs is in a [`dialect::Dialect`]: SQL texts in files, with the same parameters and the
//! same columns in each; how a connection is made; what an error code means.
//!
//! | file | subject |
//! |---|---|
//! | `dialect` | what each database brings |
//! | `sql` | a text with named parameters, and how values get into it |
//! | `pool` | a few connections, a limit for each request |
//! | `sessions` | the bound on the server sessions of one backend |
//! | `abandoned` | ending abandoned sessions on the server |
//! | `lease` | the trait, for holds that are rows |
//! | `holding` | from a row to what the trait answers |
//! | `pass_on` | from a server's backend to the one of its mode |
//! | `schema` | tables that make themselves |
//! | `table` | the user's own names for them |
//! | `options` | the parameters of a URL that are ours |
//! | `errors` | what a failed request did |
//! | `tls` | what a refused TLS connection means |
//! | `doctor` | what may be found on any of them |
//! | `transaction` | locks and fences in a transaction of the user's own |

pub(crate) mod abandoned;
pub(crate) mod dialect;
pub(crate) mod doctor;
pub(crate) mod errors;
pub(crate) mod held;
pub(crate) mod holding;
pub(crate) mod lease;
pub(crate) mod options;
pub(crate) mod pass_on;
pub(crate) mod pool;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod sql;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod transaction;

pub use options::Mode;
