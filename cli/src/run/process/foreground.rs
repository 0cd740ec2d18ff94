//! The terminal's foreground process group. Only in it, CMD can read and receives Ctrl-C.

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// Returns the group of `process`; for `None`, of this process. Returns `None` if the group's
/// leader is in another PID namespace, where rustix's function panics.
pub(crate) fn group_of(process: Option<Pid>) -> Option<Pid> {
    let process = process.map(|process| nix::unistd::Pid::from_raw(process.as_raw_nonzero().get()));
    Pid::from_raw(nix::unistd::getpgid(process).ok()?.as_raw())
}

#[derive(Debug)]
pub(crate) struct Terminal(Option<File>);

impl Terminal {
    pub(crate) fn open() -> Self {
        Self(File::options().read(true).write(true).open("/dev/tty").ok())
    }

    pub(crate) fn is_with(&self, group: Option<Pid>) -> bool {
        let foreground = self.0.as_ref().and_then(|tty| tcgetpgrp(tty).ok());
        foreground.is_some() && foreground == group
    }

    /// Gives the foreground to `to` if `from` has it. The caller must block SIGTTOU, which would
    /// suspend a background process here.
    pub(crate) fn hand_over(&self, from: Option<Pid>, to: Pid) -> bool {
        match &self.0 {
            Some(tty) if self.is_with(from) => tcsetpgrp(tty, to).is_ok(),
            _ => false,
        }
    }

    /// Gives the foreground to `group`, unless another living group has it, such as the shell. The
    /// caller must block SIGTTOU.
    pub(crate) fn take_back(&self, group: Option<Pid>) {
        let (Some(tty), Some(group)) = (&self.0, group) else { return };
        let lives = tcgetpgrp(tty)
            .is_ok_and(|foreground| test_kill_process_group(foreground) != Err(Errno::SRCH));
        if !lives {
            let _ = tcsetpgrp(tty, group);
        }
    }
}
