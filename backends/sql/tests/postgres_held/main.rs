//! Holds in sessions of a PostgreSQL server: tests beyond the conformance suite.
#![cfg(feature = "postgres")]
#![forbid(unsafe_code)]

mod postgres;
mod support;
