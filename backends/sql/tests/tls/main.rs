//! Tests of locks over TLS, and of TLS errors, on real servers, with and without the feature `tls`.
#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "each server runs the same tests")]
#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, unused_imports, reason = "what is tested over TLS isn't there")
)]

mod expect;
mod mysql;
mod postgres;
#[path = "../support/mod.rs"]
mod support;
