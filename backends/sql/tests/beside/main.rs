//! Those who hold a name beside each other: what the suite can't show of them, on each database.
#![forbid(unsafe_code)]

mod held;
mod mysql;
mod postgres;
mod rules;
mod sqlite;
