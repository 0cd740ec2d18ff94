//! Tests of readers and permits on each database, beyond the conformance suite.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

#[path = "mysql.rs"]
mod mysql;
#[path = "postgres.rs"]
mod postgres;
mod rules;
mod sqlite;
#[path = "../support/mod.rs"]
mod support;
