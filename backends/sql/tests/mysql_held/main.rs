//! Holds in sessions of a MariaDB server: what the suite can't see, because it is about
//! processes, connections and the server's own views.
#![cfg(feature = "mysql")]
#![forbid(unsafe_code)]

mod meddler;
mod mysql;
mod support;
