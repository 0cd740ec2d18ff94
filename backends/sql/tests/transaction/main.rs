//! Locks and fences in a transaction of the user's own.
#![forbid(unsafe_code)]

mod kit;
mod mysql;
mod postgres;
