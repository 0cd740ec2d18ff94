//! Shared holders on each database: tests beyond the conformance suite.
#![forbid(unsafe_code)]

mod held;
mod mysql;
mod postgres;
mod rules;
mod sqlite;
