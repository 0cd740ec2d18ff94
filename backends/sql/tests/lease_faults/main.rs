//! Tests of the lease mode on stuck, slow or silent servers.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

// Because of `#[path]`, submodules of these files are in this folder.
#[path = "mariadb.rs"]
mod mariadb;
#[path = "postgres.rs"]
mod postgres;
#[path = "../support/mod.rs"]
mod support;
