//! Codes 64 to 78 are from `sysexits.h`. Shells and common programs use other codes.

use std::error::Error as _;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;

use lockwright::backend::Step;
use lockwright::{Error, ErrorKind};

use crate::stderr;

pub(crate) const HELD: u8 = 1;
pub(crate) const USAGE: u8 = 64;
pub(crate) const CONFLICT: u8 = 65;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const SUPERVISOR: u8 = 70;
pub(crate) const OS: u8 = 71;
pub(crate) const LOST: u8 = 75;
pub(crate) const DENIED: u8 = 77;
pub(crate) const CONFIG: u8 = 78;
pub(crate) const NOT_EXECUTABLE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;

pub(crate) const TABLE: &str = "\
Exit codes:
  CMD's own, or 128+N if signal N ended it; otherwise
    1  the lock is held by another client (-n), or was until -w expired; -E sets another code
   64  the command line is invalid: options, name, TTL
   65  the name is locked in another mode, or by another lock library
   69  the server is unreachable, or doesn't answer
   70  the supervisor process was killed; CMD was ended with it
   71  the operating system denies a process or a file
   75  the hold was lost, so CMD was ended before the deadline (or had just ended by itself)
   77  the server denies access: password, permission
   78  the URL or configuration is invalid, or this build lacks the backend, or the backend lacks the mode
  126  CMD can't be executed; the lock is released
  127  CMD doesn't exist";

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

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(CONFIG, "invalid_config", message)
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

pub(crate) fn complain(code: u8, message: impl Display) -> ExitCode {
    stderr::write_message(&message.to_string(), stderr::MESSAGE_TIMEOUT);
    ExitCode::from(code)
}

pub(crate) fn not_executed(error: &std::io::Error) -> u8 {
    match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

pub(crate) fn internal_use_only() -> ExitCode {
    complain(USAGE, "this subcommand is internal; use `lockwright run NAME -- CMD`")
}

#[cfg(test)]
mod tests {
    use lockwright::LockName;

    use super::*;

    #[test]
    fn repeated_context_is_printed_once() {
        let name = LockName::new("orders").unwrap();
        let about = |kind, what: &str| Error::new(kind, what).with_backend("etcd").with_name(&name);
        let refused = || about(ErrorKind::Unavailable, "it refuses connections");
        let timed_out = || about(ErrorKind::TimedOut(Step::Answer), "timed out");
        let says = "etcd: lock \"orders\": timed out: it refuses connections";
        assert_eq!(chain(&timed_out().with_source(refused())), says);
        assert_eq!(chain(&timed_out().with_source(Arc::new(refused()))), says);
        let system = refused().with_source(std::io::Error::other("no way"));
        assert_eq!(chain(&timed_out().with_source(system)), format!("{says}: no way"));
        let other = refused().with_backend("node 2");
        let text = chain(&timed_out().with_source(other));
        assert!(text.ends_with("timed out: node 2: lock \"orders\": it refuses connections"));
    }
}
