//! Holds in sessions of a PostgreSQL server: processes, connections and the server's own views,
//! which the conformance suite doesn't test.
#![cfg(feature = "postgres")]
#![forbid(unsafe_code)]

mod postgres;
mod support;
