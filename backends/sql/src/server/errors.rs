use std::time::Duration;

use lockwright_core::{Error, ErrorKind};

use super::{BadRow, Dialect, tls};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Changes,
    Reads,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) kind: ErrorKind,
    pub(crate) message: &'static str,
    /// True if a retry may succeed, because a concurrent request caused the error.
    pub(crate) again: bool,
    /// True if the server rejects all requests at present.
    pub(crate) useless: bool,
}

impl Verdict {
    pub(crate) const fn new(kind: ErrorKind, message: &'static str) -> Self {
        Self { kind, message, again: false, useless: false }
    }

    pub(crate) const fn again(mut self) -> Self {
        self.again = true;
        self
    }

    pub(crate) const fn useless(mut self) -> Self {
        self.useless = true;
        self
    }
}

/// Makes the [`Verdict`] of the first matching pattern. Without one, the surrounding function
/// returns `None`.
macro_rules! verdicts {
    ($code:expr; $(
        $pattern:pat $(if $guard:expr)? => $kind:ident $(.$more:ident())*, $message:expr;
    )*) => {
        Some(match $code {
            $($pattern $(if $guard)? => {
                Verdict::new(lockwright_core::ErrorKind::$kind, $message)$(.$more())*
            })*
            _ => return None,
        })
    };
}
pub(crate) use verdicts;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) again: bool,
    /// True if probably all of the pool's connections are dead.
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

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, again: false, lost: false }
    }
}

pub(crate) fn timed_out(effect: Effect, limit: Duration, backend: &'static str) -> Error {
    let what = format!("the server did not answer within {limit:?}");
    unanswered(effect, &what).with_backend(backend)
}

pub(crate) fn not_connected_in(limit: Duration, backend: &'static str) -> Error {
    let error = Error::unavailable(format!(
        "no connection to the server within {limit:?}; check that it runs, and that this machine \
         can reach it"
    ));
    error.with_backend(backend)
}

pub(crate) fn no_session_in(
    limit: Duration,
    refusal: Option<String>,
    backend: &'static str,
) -> Error {
    let error = Error::unavailable(format!(
        "no connection was free within {limit:?}; check that the server answers, or raise \
         `connections` in the URL"
    ));
    let error = error.with_backend(backend);
    match refusal {
        Some(refusal) => error.with_source(refusal),
        None => error,
    }
}

pub(crate) fn not_connected<D: Dialect>(cause: &sqlx::Error, dialect: &D) -> Error {
    let error = match cause {
        sqlx::Error::Database(_) => match D::judge(cause) {
            Some(verdict) if verdict.kind != ErrorKind::Indeterminate => {
                Error::new(verdict.kind, verdict.message)
            }
            _ => Error::unavailable("the server refuses the connection"),
        },
        _ => tls::refusal(cause, dialect.is_by_file()).unwrap_or_else(|| match cause {
            sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_) => {
                Error::invalid_config("the URL's settings can't be used")
            }
            sqlx::Error::PoolTimedOut => Error::unavailable(
                "the program's pool has no free connection; check that the server answers, or raise \
                 the pool's `max_connections`",
            ),
            sqlx::Error::PoolClosed => Error::unavailable("the program has closed its pool"),
            sqlx::Error::AnyDriverError(_) => {
                Error::unavailable("cannot set up a new connection; see the cause")
            }
            _ => Error::unavailable("the server can't be reached"),
        }),
    };
    error.with_backend(dialect.backend()).with_source(plain(cause))
}

pub(crate) fn failed<D: Dialect>(cause: sqlx::Error, effect: Effect, dialect: &D) -> Failure {
    let (error, again, lost) = match &cause {
        sqlx::Error::Database(_) | sqlx::Error::AnyDriverError(_) => match D::judge(&cause) {
            // If `again` is set, the pool retries, which is safe because requests are idempotent.
            Some(verdict) if verdict.kind == ErrorKind::Indeterminate => {
                (unanswered(effect, verdict.message), verdict.again, !verdict.again)
            }
            Some(verdict) => {
                (Error::new(verdict.kind, verdict.message), verdict.again, verdict.useless)
            }
            None => (Error::unavailable("the server can't carry out the request"), false, false),
        },
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => {
            (unanswered(effect, "the connection broke before the answer came"), false, true)
        }
        _ => (unanswered(effect, "the server's answer can't be understood"), false, true),
    };
    Failure { error: error.with_backend(dialect.backend()).with_source(plain(&cause)), again, lost }
}

pub(crate) fn plain(cause: &sqlx::Error) -> String {
    match cause {
        sqlx::Error::Database(refusal) => match refusal.code() {
            Some(code) => format!("{} ({code})", refusal.message()),
            None => refusal.message().to_owned(),
        },
        sqlx::Error::Io(error) => error.to_string(),
        // On MySQL: a statement failed after an earlier statement had changed data.
        sqlx::Error::AnyDriverError(error) => error.to_string(),
        sqlx::Error::Tls(error) => tls::without_pem(&error.to_string()).into_owned(),
        other => other.to_string(),
    }
}

pub(crate) fn bad_row(_: BadRow, backend: &'static str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        "the tables have a row that Lockwright didn't write, or were changed by hand; run the doctor",
    )
    .with_backend(backend)
}
