//! Tests of locks and fences in the application's own transaction.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

mod expect;
mod mysql;
mod postgres;
#[path = "../support/mod.rs"]
mod support;
