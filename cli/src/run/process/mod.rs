//! The processes below `lockwright run`.
//!
//! ```text
//! L  lockwright run      holds the lock, sends S each confirmed deadline
//! └─ S  the supervisor   ends CMD and its descendants by the deadline
//!    └─ CMD              the user's command, in its own process group; dies with S
//!       └─ ...           orphans become children of S, or of L after S ended
//! ```
//!
//! S is synchronous and has one thread, because the kernel kills CMD when the thread that created
//! CMD ends.

pub(crate) mod descendants;
pub(crate) mod exec_child;
pub(crate) mod foreground;
pub(crate) mod ipc;
pub(crate) mod supervisor;
#[cfg(target_os = "linux")]
mod timer;

use std::path::PathBuf;

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};

pub(crate) const ROLE_SUPERVISE: &str = "__supervise";

pub(crate) const ROLE_EXEC: &str = "__become";

/// Returns this executable's path: on Linux, even if the file was replaced or deleted.
pub(crate) fn own_path() -> PathBuf {
    if cfg!(target_os = "linux") {
        return "/proc/self/exe".into();
    }
    std::env::current_exe().unwrap_or_else(|_| "lockwright".into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exit {
    Code(u8),
    Signal(i32),
}

impl Exit {
    pub(crate) fn of(status: WaitStatus) -> Option<Self> {
        let code = status.exit_status().map(|code| Self::Code(code as u8));
        code.or_else(|| status.terminating_signal().map(Self::Signal))
    }

    pub(crate) fn shell_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128_u8.saturating_add(signal as u8),
        }
    }
}
