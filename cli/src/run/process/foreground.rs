//! The terminal's foreground process group, which CMD needs to read and receive Ctrl-C.

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

#[derive(Debug)]
pub(crate) struct Terminal(Option<File>);

impl Terminal {
    pub(crate) fn open() -> Self {
        Self(File::options().read(true).write(true).open("/dev/tty").ok())
    }

    pub(crate) fn is_with(&self, group: Pid) -> bool {
        self.0.as_ref().is_some_and(|tty| tcgetpgrp(tty) == Ok(group))
    }

    /// Gives the foreground to `to` if `from` has it. The caller must block SIGTTOU, which would
    /// suspend a background process here.
    pub(crate) fn hand_over(&self, from: Pid, to: Pid) -> bool {
        match &self.0 {
            Some(tty) if self.is_with(from) => tcsetpgrp(tty, to).is_ok(),
            _ => false,
        }
    }

    /// Gives the foreground to `group`, unless another living group has it, such as the shell. The
    /// caller must block SIGTTOU.
    pub(crate) fn take_back(&self, group: Pid) {
        let Some(tty) = &self.0 else { return };
        let lives = tcgetpgrp(tty)
            .is_ok_and(|foreground| test_kill_process_group(foreground) != Err(Errno::SRCH));
        if !lives {
            let _ = tcsetpgrp(tty, group);
        }
    }
}
