//! Tests of Redlock on five real servers.
#![forbid(unsafe_code)]

mod common;
mod connect;
mod data_loss;
mod incarnations;
mod silence;
