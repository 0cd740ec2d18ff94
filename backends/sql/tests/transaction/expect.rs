use lockwright_sql::transaction::{Outcome, Wait};

use crate::support::{Error, ErrorKind, Reason, ms};
pub(crate) use crate::support::{LIMIT as PATIENCE, refused};

pub(crate) const BRIEFLY: Wait = Wait::For(ms(300));

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
    refused(answer, ErrorKind::Lost(Reason::Superseded), "was accepted before");
}
