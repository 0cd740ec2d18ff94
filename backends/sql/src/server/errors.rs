//! What a failed request did.

use std::time::Duration;

use lockwright_core::{Error, ErrorKind};

use super::dialect::{BadRow, Dialect};
use super::tls;

/// Whether a request changes anything. One that doesn't certainly had no effect, whatever became
/// of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

/// What a server's error means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) kind: ErrorKind,
    /// What to do about it.
    pub(crate) message: &'static str,
    /// Whether the same request may succeed at once: it lost against another one.
    pub(crate) again: bool,
    /// Whether the server that answered will refuse everything for now: its connections go.
    pub(crate) useless: bool,
}

impl Verdict {
    /// An error with which the server carried out nothing, of this kind.
    pub(crate) const fn new(kind: ErrorKind, message: &'static str) -> Self {
        Self { kind, message, again: false, useless: false }
    }

    /// One that the next try may not meet.
    pub(crate) const fn again(message: &'static str) -> Self {
        Self { kind: ErrorKind::Unavailable, message, again: true, useless: false }
    }

    /// One by which the whole server is of no use.
    pub(crate) const fn useless(mut self) -> Self {
        self.useless = true;
        self
    }
}

/// What is known of a request that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) again: bool,
    /// Whether other connections are as dead as this one.
    pub(crate) lost: bool,
}

fn unanswered(effect: Effect, what: &str) -> Error {
    match effect {
        Effect::Reads => Error::unavailable(what),
        Effect::Changes => {
            Error::indeterminate(format!("{what}; the request may have been carried out"))
        }
    }
}

/// A request that was sent, and got no answer within its limit.
pub(crate) fn timed_out(effect: Effect, limit: Duration, backend: &'static str) -> Failure {
    let error = unanswered(effect, &format!("the server did not answer within {limit:?}"));
    Failure { error: error.with_backend(backend), again: false, lost: false }
}

/// A connection that wasn't there in time.
pub(crate) fn not_connected_in(limit: Duration, backend: &'static str) -> Failure {
    let error = Error::unavailable(format!(
        "no connection to the server within {limit:?}; look whether it runs, and at the way to it"
    ));
    Failure { error: error.with_backend(backend), again: false, lost: false }
}

/// Returns the error for when no server session is free. `refusal` is why sessions can't be ended.
pub(crate) fn no_session_in(
    limit: Duration,
    refusal: Option<String>,
    backend: &'static str,
) -> Failure {
    let error = Error::unavailable(format!(
        "no connection was free within {limit:?}; check that the server answers, or raise \
         `connections` in the URL"
    ));
    let error = error.with_backend(backend);
    let error = match refusal {
        Some(refusal) => error.with_source(refusal),
        None => error,
    };
    Failure { error, again: false, lost: false }
}

/// A connection that couldn't be made: no request was sent.
pub(crate) fn not_connected<D: Dialect>(cause: sqlx::Error, dialect: &D) -> Failure {
    let error = match &cause {
        sqlx::Error::Database(refusal) => {
            let verdict = D::judge(&D::code(&**refusal), refusal.message());
            match verdict {
                Some(verdict) if verdict.kind != ErrorKind::Indeterminate => {
                    Error::new(verdict.kind, verdict.message)
                }
                _ => Error::unavailable("the server refuses the connection"),
            }
        }
        _ => tls::refusal(&cause, dialect.is_by_file()).unwrap_or_else(|| match &cause {
            sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_) => {
                Error::invalid_config("the URL's settings can't be used")
            }
            _ => Error::unavailable("the server can't be reached"),
        }),
    };
    Failure {
        error: error.with_backend(dialect.backend()).with_source(plain(&cause)),
        again: false,
        lost: false,
    }
}

/// A request that was sent.
pub(crate) fn failed<D: Dialect>(cause: sqlx::Error, effect: Effect, dialect: &D) -> Failure {
    let (error, again, lost) = match &cause {
        sqlx::Error::Database(refusal) => {
            match D::judge(&D::code(&**refusal), refusal.message()) {
                // Every request may be sent twice, if there is a reason to.
                Some(verdict) if verdict.kind == ErrorKind::Indeterminate => {
                    (unanswered(effect, verdict.message), verdict.again, !verdict.again)
                }
                Some(verdict) => {
                    (Error::new(verdict.kind, verdict.message), verdict.again, verdict.useless)
                }
                // What a statement answers with an error, it has undone.
                None => {
                    (Error::unavailable("the server can't carry out the request"), false, false)
                }
            }
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => {
            (unanswered(effect, "the connection broke before the answer came"), false, true)
        }
        _ => (unanswered(effect, "the server's answer can't be understood"), false, true),
    };
    Failure { error: error.with_backend(dialect.backend()).with_source(plain(&cause)), again, lost }
}

/// Without what the driver puts around the server's own words.
pub(crate) fn plain(cause: &sqlx::Error) -> String {
    match cause {
        sqlx::Error::Database(refusal) => match refusal.code() {
            Some(code) => format!("{} ({code})", refusal.message()),
            None => refusal.message().to_owned(),
        },
        sqlx::Error::Io(error) => error.to_string(),
        sqlx::Error::Tls(error) => tls::without_pem(&error.to_string()).into_owned(),
        other => other.to_string(),
    }
}

/// Rows that this version never writes.
pub(crate) fn bad_row(_: BadRow, backend: &'static str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the tables have a row that Lockwright didn't write, or were changed by hand; run the doctor",
    )
    .with_backend(backend)
}
