//! Holds in sessions of a PostgreSQL server: what the suite can't see, because it is about
//! processes, connections and the server's own views.
#![cfg(feature = "postgres")]
#![forbid(unsafe_code)]

mod postgres;
mod support;
