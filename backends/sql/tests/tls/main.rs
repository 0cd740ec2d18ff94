//! Locks over TLS and TLS errors, on real servers, with and without the feature `tls`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, unused_imports, reason = "what is tested over TLS isn't there")
)]

mod kit;
mod mysql;
mod postgres;
