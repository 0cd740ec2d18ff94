use std::time::Duration;

pub(crate) use crate::support::refused;
use lockwright_core::{Error, ErrorKind, Reason};
use lockwright_sql::transaction::{Outcome, Wait};

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

#[track_caller]
pub(crate) fn superseded<T: std::fmt::Debug>(answer: Result<T, Error>) {
    refused(answer, ErrorKind::Lost(Reason::Superseded), "a later holder has written");
}
