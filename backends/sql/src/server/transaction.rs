use std::time::Duration;

use lockwright_core::{BootInstant, Clock, Error, ErrorKind};

use super::errors::Verdict;

/// The time to wait for a lock that another session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Doesn't wait.
    No,
    /// Waits for at most this time.
    For(Duration),
    /// Waits until the lock is free.
    NoLimit,
}

/// The result of locking in a transaction.
#[must_use = "if the result is ignored, a transaction continues without the lock"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction has the lock until its end, and may have had it before.
    Locked,
    /// Another session still holds the lock. The transaction is unchanged and usable. Never
    /// returned for [`Wait::NoLimit`].
    Busy,
}

impl Outcome {
    /// Returns whether the transaction has the lock.
    pub const fn is_locked(self) -> bool {
        matches!(self, Self::Locked)
    }
}

/// The longest wait in one statement, and so the longest time for which a dropped wait occupies its
/// connection.
const SLICE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Limit {
    clock: Clock,
    until: Option<BootInstant>,
}

impl Limit {
    pub(crate) fn of(wait: Wait) -> Self {
        let clock = Clock::boot();
        let until = match wait {
            Wait::No => Some(clock.now()),
            Wait::For(limit) => Some(clock.now() + limit),
            Wait::NoLimit => None,
        };
        Self { clock, until }
    }

    /// Returns the next statement's wait, or `None` after the limit.
    pub(crate) fn slice(&self) -> Option<Duration> {
        match self.until {
            None => Some(SLICE),
            Some(until) => {
                let left = until.saturating_since(self.clock.now());
                (!left.is_zero()).then(|| left.min(SLICE))
            }
        }
    }
}

pub(crate) fn no_transaction(what: &str) -> Error {
    Error::invalid_input(format!(
        "there is no transaction, so {what} would be over at once; begin one first \
         (`let mut tx = pool.begin().await?`), and pass `&mut tx`"
    ))
}

/// Implements what PostgreSQL's and MySQL's `InTransaction` have in common.
macro_rules! in_transaction {
    ($connection:ty, $schema:literal) => {
        pub(super) static DEFAULT: std::sync::LazyLock<InTransaction> =
            std::sync::LazyLock::new(InTransaction::default);

        impl Default for InTransaction {
            fn default() -> Self {
                Self::of(Tables::default())
            }
        }

        impl InTransaction {
            /// Uses the tables `lockwright_*`.
            pub fn new() -> Self {
                Self::default()
            }

            /// Sets the prefix of the tables' names; `lockwright` by default.
            ///
            /// # Errors
            /// As [`Config::table`](super::Config::table).
            pub fn table(self, prefix: &str) -> Result<Self> {
                Ok(Self::of(self.tables.named(prefix)?))
            }

            #[doc = concat!("Sets ", $schema)]
            ///
            /// # Errors
            /// As [`InTransaction::table`].
            pub fn schema_name(self, schema: &str) -> Result<Self> {
                Ok(Self::of(self.tables.within(schema)?))
            }

            /// Does the same as [`lock_in_transaction`], with these tables.
            pub async fn lock(
                &self,
                tx: &mut $connection,
                name: &str,
                wait: Wait,
            ) -> Result<Outcome> {
                let limit = Limit::of(wait);
                let name = LockName::new(name)?;
                self.lock_name(tx, &name, &limit).await.map_err(|error| error.with_name(&name))
            }

            /// Does the same as [`check_fence`](super::check_fence), with these tables.
            pub async fn check_fence(
                &self,
                tx: &mut $connection,
                name: &str,
                fence: Fence,
            ) -> Result<()> {
                let name = LockName::new(name)?;
                let arguments = [
                    ("name", Value::Text(name.as_str())),
                    ("fence", Value::Int(fence_check::number(fence, BACKEND)?)),
                ];
                let rows = run(tx, &self.fence, &arguments)
                    .await
                    .map_err(|cause| failed(&cause).with_name(&name))?;
                fence_check::check(&name, fence, &rows, BACKEND)
            }
        }
    };
}
pub(crate) use in_transaction;

/// Converts a statement's error, never to `Indeterminate`: before the commit, the statement has no
/// effect.
pub(crate) fn failed(
    cause: &sqlx::Error,
    judge: impl Fn(&str, &str) -> Option<Verdict>,
    backend: &'static str,
) -> Error {
    let (kind, message) = match cause {
        sqlx::Error::Database(refusal) => {
            let code = refusal.code().unwrap_or_default();
            match judge(&code, refusal.message()) {
                Some(verdict) if verdict.kind != ErrorKind::Indeterminate => {
                    (verdict.kind, verdict.message)
                }
                Some(_) => {
                    (ErrorKind::Unavailable, "the connection ended, and the transaction with it")
                }
                None => (ErrorKind::Unavailable, "the server can't carry out the request"),
            }
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => {
            (ErrorKind::Unavailable, "the connection broke, and the transaction ended with it")
        }
        _ => (ErrorKind::Unavailable, "the server's answer can't be understood"),
    };
    Error::new(kind, message).with_backend(backend).with_source(cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_cut_into_slices_and_ends() {
        assert_eq!(Limit::of(Wait::No).slice(), None);
        assert_eq!(Limit::of(Wait::For(Duration::ZERO)).slice(), None);
        assert_eq!(Limit::of(Wait::NoLimit).slice(), Some(SLICE));
        assert_eq!(Limit::of(Wait::For(Duration::MAX)).slice(), Some(SLICE));
        let slice = Limit::of(Wait::For(Duration::from_secs(1))).slice().unwrap();
        assert!(slice <= Duration::from_secs(1) && slice > Duration::from_millis(500));
    }
}
