//! Holds in sessions of a MariaDB server: tests beyond the conformance suite.
#![cfg(feature = "mysql")]
#![forbid(unsafe_code)]

mod meddler;
mod mysql;
mod support;
