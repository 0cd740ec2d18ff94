//! Locks over TLS, and what is said where TLS fails: against real servers, with the feature `tls`
//! and without it.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, unused_imports, reason = "what is tested over TLS isn't there")
)]

mod kit;
mod mysql;
mod postgres;
