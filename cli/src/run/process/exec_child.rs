//! The process that becomes CMD by `exec`, after it has arranged to die with the supervisor. As a
//! separate program, it avoids unsafe code between `fork` and `exec`.

use std::env::ArgsOs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use lockwright::{BootInstant, Clock};
use nix::sys::signal::SigSet;
use rustix::process::{Pid, getpgrp, getppid};

use super::foreground::Terminal;
use crate::exit;

pub(crate) const NO_FOREGROUND: &str = "-";

/// `args` are the supervisor's process id, the process group in the foreground (or
/// [`NO_FOREGROUND`]), the latest start of the command (nanoseconds of the boot clock), and the
/// command.
pub(crate) fn main(mut args: ArgsOs) -> ExitCode {
    let mut text = || args.next().and_then(|text| text.into_string().ok());
    let pid = |text: String| text.parse().ok().and_then(Pid::from_raw);
    let (Some(Some(supervisor)), Some(hands_over), Some(Ok(lost_at)), Some(command)) =
        (text().map(pid), text().map(pid), text().map(|text| text.parse()), args.next())
    else {
        return exit::internal_use_only();
    };
    let lost_at = BootInstant::from_nanos(lost_at);

    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        // Without the signal, CMD would survive a killed supervisor.
        return exit::complain(
            exit::OS,
            format_args!("cannot set the death signal, so the command was not started: {error}"),
        );
    }
    if getppid() != Some(supervisor) {
        // The supervisor died, so it can't end CMD by the deadline.
        return ExitCode::from(exit::SUPERVISOR);
    }
    if hands_over.is_some() {
        Terminal::open().hand_over(hands_over, getpgrp());
    }
    // The supervisor blocks signals.
    let _ = SigSet::all().thread_unblock();

    // This process may have been suspended or starved since the grant.
    if Clock::boot().now() >= lost_at {
        return exit::complain(
            exit::LOST,
            "the hold expired before the command could start, so it was not started",
        );
    }
    let error = Command::new(&command).args(args).exec();
    let exists = std::path::Path::new(&command).exists();
    let hint = if error.kind() == io::ErrorKind::NotFound && exists {
        " (the file exists: the interpreter in its first line, or its loader, does not)"
    } else {
        ""
    };
    let command = command.to_string_lossy();
    let message = format!("cannot run {command}: {error}{hint}; the lock is released");
    exit::complain(exit::not_executed(&error), message)
}
