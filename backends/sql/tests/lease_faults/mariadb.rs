#[path = "locked_row.rs"]
mod locked_row;
#[path = "sessions.rs"]
mod sessions;
#[path = "silence.rs"]
mod silence;

use crate::support::mysql as server;
