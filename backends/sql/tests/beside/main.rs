//! Shared holders on each database, as far as the conformance suite doesn't test them.
#![forbid(unsafe_code)]

mod held;
mod mysql;
mod postgres;
mod rules;
mod sqlite;
