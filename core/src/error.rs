use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::{LockName, Mode, Profile, Reason};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its kind, lock, backend and cause, without secrets.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    name: Option<LockName>,
    backend: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request's time limit has passed. Nothing is held.
    TimedOut(Step),
    /// The request certainly had no effect.
    Unavailable,
    /// The request may have had an effect, or may have one later. The client releases an unanswered
    /// claim in the background.
    Indeterminate,
    /// The hold ended before its release.
    Lost(Reason),
    /// The name is in use as another lock type or by other software, or the owner's hold doesn't
    /// fit the request.
    Conflict,
    /// The backend or this build lacks the operation.
    Unsupported,
    /// An argument is invalid.
    InvalidInput,
    /// The configuration is invalid.
    InvalidConfig,
    /// The server denies access.
    Denied,
    /// The client was closed.
    Closed,
}

/// The party that a timed-out request was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Another task of this client, which held the lock or was ahead in the queue.
    LocalTurn,
    /// The holder: another client, or a reader or permit of this client.
    Holder,
    /// The server, which hadn't answered.
    Answer,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LocalTurn => "another task of this client to release the lock",
            Self::Holder => "the lock's holder to release it",
            Self::Answer => "the server's answer",
        })
    }
}

impl Error {
    /// Creates an error. The message must be one sentence, without a full stop. It must not name
    /// the lock or the backend.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            name: None,
            backend: None,
            source: None,
        }))
    }

    /// Creates an error for an invalid argument.
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Creates an error for an invalid configuration.
    pub fn invalid_config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidConfig, message)
    }

    /// Creates an error for an invalid URL. `shown` is the URL without secrets.
    pub fn invalid_url(shown: &str, what: &str, form: &str) -> Self {
        let message = format!("the URL {shown:?} can't be used: {what}; write it as {form}");
        Self::invalid_config(message)
    }

    /// Creates an error for a request that certainly had no effect.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// Creates an error for a request with an uncertain effect.
    pub fn indeterminate(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Indeterminate, message)
    }

    /// Creates an error for a feature that the backend lacks.
    pub fn unsupported(what: &str, profile: &Profile) -> Self {
        Self::new(ErrorKind::Unsupported, format!("this backend does not support {what}"))
            .with_backend(profile.backend)
    }

    /// Creates an error for a name in use as a semaphore instead of a lock, or the reverse.
    pub fn other_kind(wanted: Mode) -> Self {
        let (lock, semaphore) = ("a lock", "a semaphore");
        let (present, wanted) = match wanted {
            Mode::Permits { .. } => (lock, semaphore),
            _ => (semaphore, lock),
        };
        let message = format!(
            "the name is in use as {present}; request it as {present}, or use another name for {wanted}"
        );
        Self::new(ErrorKind::Conflict, message)
    }

    pub(crate) fn lost(reason: Reason, name: &LockName) -> Self {
        Self::new(ErrorKind::Lost(reason), format!("the hold was lost: {reason}")).with_name(name)
    }

    pub(crate) fn timed_out(step: Step, name: &LockName) -> Self {
        Self::new(ErrorKind::TimedOut(step), format!("timed out waiting for {step}"))
            .with_name(name)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "this client was closed; connect a new client")
    }

    pub(crate) fn into_config(mut self) -> Self {
        self.0.kind = ErrorKind::InvalidConfig;
        self
    }

    pub(crate) fn tried_for(mut self, time: Duration) -> Self {
        let _ = write!(self.0.message, " (tried for {time:.0?})");
        self
    }

    /// Sets the lock's name.
    pub fn with_name(mut self, name: &LockName) -> Self {
        self.0.name = Some(name.clone());
        self
    }

    /// Sets the backend.
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend = Some(backend);
        self
    }

    /// Sets the cause.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the lock's name.
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// Returns the backend.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::TimedOut(_) | ErrorKind::Unavailable | ErrorKind::Indeterminate
        )
    }

    /// Returns the reason, if the kind is `Lost`.
    pub fn lost_reason(&self) -> Option<Reason> {
        match self.kind() {
            ErrorKind::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns whether the kind is `TimedOut`.
    pub fn is_timed_out(&self) -> bool {
        matches!(self.kind(), ErrorKind::TimedOut(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        if let Some(backend) = inner.backend {
            write!(f, "{backend}: ")?;
        }
        if let Some(name) = &inner.name {
            write!(f, "lock {name:?}: ")?;
        }
        f.write_str(&inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `fn main() -> Result` prints this format, which therefore shows the causes.
        write!(f, "{self} ({:?})", self.kind())?;
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, "\n  because: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
