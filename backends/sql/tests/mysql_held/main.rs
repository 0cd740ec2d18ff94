//! Holds in sessions of a MariaDB server: processes, connections and the server's own views, which
//! the conformance suite doesn't test.
#![cfg(feature = "mysql")]
#![forbid(unsafe_code)]

mod meddler;
mod mysql;
mod support;
