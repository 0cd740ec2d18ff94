//! Tests of leases on real servers, beyond the conformance suite.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]

mod mysql;
mod postgres;
#[path = "../support/mod.rs"]
mod support;
