mod locked_row;
mod sessions;
mod silence;

use crate::support::mysql as server;
