//! The failure of a case.

use std::fmt;
use std::panic::Location;

use lockwright_core::{Error, ErrorKind, Reason, TicketError};

/// The result of a case's body.
pub type Verdict<T = ()> = Result<T, Failure>;

/// A failure with its source line.
pub struct Failure {
    message: String,
    is_late: bool,
    at: &'static Location<'static>,
}

impl Failure {
    /// Creates a failure at the caller's line.
    #[track_caller]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_late: false, at: Location::caller() }
    }

    /// Creates a timing failure, which a stalled machine can cause. It is displayed as `late: …`.
    #[track_caller]
    pub fn late(message: impl Into<String>) -> Self {
        Self { is_late: true, ..Self::new(message) }
    }

    pub(crate) fn because_of(mut self, answer: &dyn fmt::Debug) -> Self {
        self.message += &format!(": {answer:?}");
        self
    }
}

#[track_caller]
pub(crate) fn given<T>(value: Option<T>, message: impl Into<String>) -> Verdict<T> {
    match value {
        Some(value) => Ok(value),
        None => Err(Failure::new(message)),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.at.file().rsplit('/').next().unwrap_or_default();
        let late = if self.is_late { "late: " } else { "" };
        write!(f, "{late}{} ({file}:{})", self.message, self.at.line())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<TicketError> for Failure {
    #[track_caller]
    fn from(failed: TicketError) -> Self {
        failed.into_error().into()
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        let is_late = matches!(
            error.kind(),
            ErrorKind::Unavailable
                | ErrorKind::Indeterminate
                | ErrorKind::TimedOut(_)
                | ErrorKind::Lost(Reason::Expired | Reason::Unreachable | Reason::SessionEnded)
        );
        Self { is_late, ..Self::new(format!("{error:?}")) }
    }
}

impl From<std::io::Error> for Failure {
    #[track_caller]
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<tokio::task::JoinError> for Failure {
    #[track_caller]
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(error.to_string())
    }
}

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::failure::Failure::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

macro_rules! in_time {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::failure::Failure::late(format!($($message)+)));
        }
    };
}
pub(crate) use in_time;
