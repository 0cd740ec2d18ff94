//! Exit codes, and the one way to complain.
//!
//! Where a code must be ours it is one of `sysexits.h`, as flock(1) has it; they lie outside what
//! shells use (126 and up) and what programs commonly do (1, 2).

use std::error::Error as _;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use lockwright::{Error, ErrorKind, Step};

use crate::harmless::harmless;

/// The lock is held by somebody else; `-E` changes it.
pub(crate) const HELD: u8 = 1;
/// The command line can't be right.
pub(crate) const USAGE: u8 = 64;
/// The name is locked in another way, or what stands there isn't ours.
pub(crate) const CONFLICT: u8 = 65;
/// The server can't be reached, or doesn't answer.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The supervisor process was killed, or something happened that shouldn't.
pub(crate) const SUPERVISOR: u8 = 70;
/// The operating system refuses a process or a file.
pub(crate) const OS: u8 = 71;
/// The hold was lost, and CMD was ended for that.
pub(crate) const LOST: u8 = 75;
/// The server refuses: password, permission.
pub(crate) const DENIED: u8 = 77;
/// The URL or the build can't be right.
pub(crate) const CONFIG: u8 = 78;
/// CMD can't be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// CMD doesn't exist.
pub(crate) const NOT_FOUND: u8 = 127;

/// The table in `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
  CMD's own, and 128+N when signal N ended it; otherwise
    1  the lock is held by somebody else (-n), or was until -w ran out; -E sets another code
   64  the command line can't be right: options, name, TTL
   65  the name is locked in another mode, or by something that isn't a Lockwright lock
   69  the server can't be reached, or doesn't answer
   70  the supervisor process was killed; CMD was ended with it
   71  the operating system refuses a process or a file
   75  the hold was lost, so CMD was ended before its deadline (or had just ended by itself)
   77  the server refuses: password, permission
   78  the URL can't be right, or this build lacks the backend, or the backend the mode
  126  CMD can't be executed; the lock is released
  127  CMD doesn't exist";

/// What ends the program before its work is done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: u8,
    pub kind: &'static str,
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, kind: &'static str, message: impl Into<String>) -> Self {
        Self { code, kind, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "invalid_input", message)
    }

    pub(crate) fn os(what: &str, error: impl Display) -> Self {
        Self::new(OS, "os", format!("{what}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, kind) = match error.kind() {
            ErrorKind::TimedOut(Step::Answer) => (UNAVAILABLE, "timed_out"),
            ErrorKind::TimedOut(_) => (HELD, "timed_out"),
            ErrorKind::Unavailable => (UNAVAILABLE, "unavailable"),
            ErrorKind::Indeterminate => (UNAVAILABLE, "indeterminate"),
            ErrorKind::Lost(_) => (LOST, "lost"),
            ErrorKind::Conflict => (CONFLICT, "conflict"),
            ErrorKind::Unsupported => (CONFIG, "unsupported"),
            ErrorKind::InvalidInput => (USAGE, "invalid_input"),
            ErrorKind::InvalidConfig => (CONFIG, "invalid_config"),
            ErrorKind::Denied => (DENIED, "denied"),
            ErrorKind::Closed => (SUPERVISOR, "closed"),
            _ => (SUPERVISOR, "error"),
        };
        Self::new(code, kind, chain(&error))
    }
}

/// The error and what it was caused by, in one line. A cause that the text above it quotes already
/// isn't said twice, nor are the backend and the lock.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let ours = deeper.downcast_ref::<Error>();
        let ours = ours.or_else(|| deeper.downcast_ref::<Arc<Error>>().map(Arc::as_ref));
        let line = match ours {
            Some(ours) if is_about_the_same(ours, error) => ours.message().to_owned(),
            _ => deeper.to_string(),
        };
        if !text.contains(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        cause = deeper.source();
    }
    text
}

fn is_about_the_same(cause: &Error, error: &Error) -> bool {
    let backend = cause.backend().is_none_or(|backend| error.backend() == Some(backend));
    backend && cause.name().is_none_or(|name| error.name() == Some(name))
}

/// Says `message` on standard error, if anybody can still read that, and answers `code`.
pub(crate) fn complain(code: u8, message: impl Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "lockwright: {}", harmless(&message.to_string()));
    ExitCode::from(code)
}

/// For the hidden subcommands, when a person tries them.
pub(crate) fn internal_use_only() -> ExitCode {
    complain(USAGE, "this is how lockwright calls itself; use `lockwright run NAME -- CMD`")
}

#[cfg(test)]
mod tests {
    use lockwright::LockName;

    use super::*;

    #[test]
    fn what_an_error_is_about_is_said_once() {
        let name = LockName::new("orders").unwrap();
        let about = |kind, what: &str| Error::new(kind, what).with_backend("etcd").with_name(&name);
        let refused = || about(ErrorKind::Unavailable, "it refuses connections");
        let timed_out = || about(ErrorKind::TimedOut(Step::Answer), "timed out");
        let says = "etcd: lock \"orders\": timed out: it refuses connections";
        assert_eq!(chain(&timed_out().with_source(refused())), says);
        assert_eq!(chain(&timed_out().with_source(Arc::new(refused()))), says);
        let system = refused().with_source(io::Error::other("no way"));
        assert_eq!(chain(&timed_out().with_source(system)), format!("{says}: no way"));
        let other = refused().with_backend("node 2");
        let text = chain(&timed_out().with_source(other));
        assert!(text.ends_with("timed out: node 2: lock \"orders\": it refuses connections"));
    }
}
