//! Tests of the lease mode on stuck, slow or silent servers.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

mod mariadb;
mod postgres;
#[path = "../support/mod.rs"]
mod support;
