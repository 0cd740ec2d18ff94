#[path = "postgres/listener.rs"]
mod listener;
mod locked_row;
mod silence;

use crate::support::postgres as server;
