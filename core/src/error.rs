//! One error, with a kind that a program can decide by and a text that says what to do.

use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::event::Reason;
use crate::mode::Mode;
use crate::name::LockName;
use crate::profile::Profile;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, of which [kind](Error::kind), with which name, on which backend, and why.
///
/// Secrets never stand in it: what quotes a URL goes through [`redact::url`](crate::redact::url).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    name: Option<LockName>,
    backend: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The limit passed during this step. Nothing is held.
    TimedOut(Step),
    /// The server can't be reached, or can't serve now; the request certainly had no effect.
    Unavailable,
    /// The request may have had an effect, or may have one later. The client settles it in the
    /// background.
    Indeterminate,
    /// The hold ended before it was released.
    Lost(Reason),
    /// The name is in use in another mode or with another permit count, or holds what isn't ours.
    Conflict,
    /// The backend, or this build of it, doesn't do that.
    Unsupported,
    /// What the caller passed in can't be right.
    InvalidInput,
    /// The configuration can't be right.
    InvalidConfig,
    /// The server refuses: password, permission.
    Denied,
    /// The client was closed.
    Closed,
}

/// What a caller was waiting for when its limit passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Another task of this client had the name, or was waiting for it.
    LocalTurn,
    /// Another client held it.
    Holder,
    /// The server hadn't answered.
    Answer,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LocalTurn => "another task of this client to be done with the lock",
            Self::Holder => "the lock's holder to release it",
            Self::Answer => "the server's answer",
        })
    }
}

impl Error {
    /// An error of this kind. The message is one sentence without a full stop, says what to change
    /// where something can be, and names neither the lock nor the backend: those go beside it.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            name: None,
            backend: None,
            source: None,
        }))
    }

    /// What the caller passed in can't be right.
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// The configuration can't be right.
    pub fn invalid_config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidConfig, message)
    }

    /// A URL can't be right: what is wrong with it, and how one is written. `shown` is without its
    /// secrets.
    pub fn invalid_url(shown: &str, what: &str, form: &str) -> Self {
        let message = format!("the URL {shown:?} can't be used: {what}; one is written {form}");
        Self::invalid_config(message)
    }

    /// The server can't be reached; the request certainly had no effect.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The request may have had an effect.
    pub fn indeterminate(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Indeterminate, message)
    }

    /// The backend doesn't do `what`.
    pub fn unsupported(what: &str, profile: &Profile) -> Self {
        Self::new(ErrorKind::Unsupported, format!("this backend does not support {what}"))
            .with_backend(profile.backend)
    }

    /// The name is in use as `present`, and was wanted as another kind of lock.
    pub fn other_kind(present: Mode, wanted: Mode) -> Self {
        let (present, wanted) = (present.kind(), wanted.kind());
        let message = format!(
            "it is in use as {present} and can't be {wanted} meanwhile; ask for it as what it is, or \
             choose another name"
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
        Self::new(ErrorKind::Closed, "this client was closed; connect a new one")
    }

    /// Says for how long there was nothing better.
    pub(crate) fn tried_for(mut self, time: Duration) -> Self {
        let _ = write!(self.0.message, " (tried for {time:.0?})");
        self
    }

    /// Says which lock it was about.
    pub fn with_name(mut self, name: &LockName) -> Self {
        self.0.name = Some(name.clone());
        self
    }

    /// Says which backend it came from.
    pub fn with_backend(mut self, backend: &'static str) -> Self {
        self.0.backend = Some(backend);
        self
    }

    /// Says what it was caused by.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence alone, without the backend and the lock, for another error that says the same.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The lock that it was about, if it was about one.
    pub fn name(&self) -> Option<&LockName> {
        self.0.name.as_ref()
    }

    /// The backend that it came from, if it came from one.
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// Whether the same call may well work later without anything being changed.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::TimedOut(_) | ErrorKind::Unavailable | ErrorKind::Indeterminate
        )
    }

    /// Why the hold was lost, if that is what it is about.
    pub fn lost_reason(&self) -> Option<Reason> {
        match self.kind() {
            ErrorKind::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether it is a [`ErrorKind::TimedOut`].
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
        // What `fn main() -> Result` prints: the sentence and the chain, not the struct.
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
