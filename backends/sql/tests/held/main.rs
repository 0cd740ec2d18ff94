//! Tests for both modes with holds in sessions, on PostgreSQL and on MariaDB.
#![forbid(unsafe_code)]

mod breaking;
mod closing;
mod limit;
mod renewing;
mod runtime;
mod server;
mod silence;
