#[path = "breaking.rs"]
mod breaking;
#[path = "closing.rs"]
mod closing;
#[path = "limit.rs"]
mod limit;
#[path = "renewing.rs"]
mod renewing;
#[path = "runtime.rs"]
mod runtime;
#[path = "silence.rs"]
mod silence;

use crate::support::mysql as server;
