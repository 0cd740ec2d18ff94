//! Who has the terminal. CMD is in a process group of its own, so on a terminal it must be handed
//! the foreground to read from it and to get Ctrl-C, and the foreground comes back afterwards.

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of this session, if it has one.
#[derive(Debug)]
pub(crate) struct Terminal(Option<File>);

impl Terminal {
    pub(crate) fn open() -> Self {
        Self(File::options().read(true).write(true).open("/dev/tty").ok())
    }

    /// Whether `group` has the foreground.
    pub(crate) fn is_with(&self, group: Pid) -> bool {
        self.0.as_ref().is_some_and(|tty| tcgetpgrp(tty) == Ok(group))
    }

    /// Hands the foreground from one group to another, if it is the one's to give. The caller has
    /// SIGTTOU blocked: otherwise a process that isn't in the foreground is stopped by this.
    pub(crate) fn hand_over(&self, from: Pid, to: Pid) -> bool {
        match &self.0 {
            Some(tty) if self.is_with(from) => tcsetpgrp(tty, to).is_ok(),
            _ => false,
        }
    }

    /// Gives the foreground back to `group` when the one that had it is gone. One that still lives
    /// is somebody else's by then: the shell's, say, when we were put into the background.
    pub(crate) fn take_back(&self, group: Pid) {
        let Some(tty) = &self.0 else { return };
        let lives = tcgetpgrp(tty)
            .is_ok_and(|foreground| test_kill_process_group(foreground) != Err(Errno::SRCH));
        if !lives {
            // Fails when that group has gone too; then there is nobody to give it to.
            let _ = tcsetpgrp(tty, group);
        }
    }
}
