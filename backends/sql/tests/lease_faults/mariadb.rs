mod locked_row;
mod silence;

use crate::support::mysql as server;
