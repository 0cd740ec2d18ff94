//! Locks and fences in the application's own transaction.
#![forbid(unsafe_code)]

mod kit;
mod mysql;
mod postgres;
