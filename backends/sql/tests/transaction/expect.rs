//! Expected outcomes.

use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Reason};
use lockwright_sql::transaction::{Outcome, Wait};

/// A time limit for expected events.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const BRIEFLY: Wait = Wait::For(Duration::from_millis(300));

#[track_caller]
pub(crate) fn locked(answer: Result<Outcome, Error>) {
    assert_eq!(answer.unwrap(), Outcome::Locked);
}

#[track_caller]
pub(crate) fn busy(answer: Result<Outcome, Error>) {
    assert_eq!(answer.unwrap(), Outcome::Busy);
}

/// Asserts the kind and text of an error.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(
    answer: Result<T, Error>,
    kind: ErrorKind,
    says: &str,
) -> Error {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(says), "{error:?}");
    error
}

#[track_caller]
pub(crate) fn superseded<T: std::fmt::Debug>(answer: Result<T, Error>) {
    refused(answer, ErrorKind::Lost(Reason::Superseded), "a later holder has written");
}
