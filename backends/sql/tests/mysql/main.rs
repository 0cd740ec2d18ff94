//! MariaDB's lease mode on real servers: tests beyond the conformance suite.
#![forbid(unsafe_code)]

mod kit;
mod mysql;
