//! MariaDB's lease mode against real servers: what is its own, beside the conformance suite.
#![forbid(unsafe_code)]

mod kit;
mod mysql;
