use std::time::Duration;

use lockwright_core::fencing::Fenced;
use lockwright_core::{BootInstant, Clock, Error, ErrorKind, Fence, Result};

use super::{BadRow, Dialect, Row, Value, bad_row};

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

/// Usually the longest wait in one statement, and so the longest use of the connection by a dropped
/// wait.
const SLICE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Limit {
    clock: Clock,
    begun: BootInstant,
    until: Option<BootInstant>,
}

impl Limit {
    pub(crate) fn of(wait: Wait) -> Self {
        let clock = Clock::boot();
        let begun = clock.now();
        let until = match wait {
            Wait::No => Some(begun),
            Wait::For(limit) => Some(begun + limit),
            Wait::NoLimit => None,
        };
        Self { clock, begun, until }
    }

    pub(crate) fn left(&self) -> Option<Duration> {
        let Some(until) = self.until else { return Some(Duration::MAX) };
        Some(until.saturating_since(self.clock.now())).filter(|left| !left.is_zero())
    }

    pub(crate) fn slice(&self) -> Option<Duration> {
        self.left().map(|left| left.min(SLICE))
    }

    pub(crate) fn waited_without_limit(&self) -> Option<Duration> {
        self.until.is_none().then(|| self.clock.now().saturating_since(self.begun))
    }
}

pub(crate) fn no_transaction(what: &str) -> Error {
    Error::invalid_input(format!(
        "there is no transaction, so {what} would be over at once; begin one first \
         (`let mut tx = pool.begin().await?`), and pass `&mut tx`"
    ))
}

macro_rules! in_transaction {
    ($dialect:ident, $connection:ty, $schema:literal) => {
        static DEFAULT: std::sync::LazyLock<InTransaction> =
            std::sync::LazyLock::new(InTransaction::default);

        /// Rejects a holder's transaction if a later holder has already written.
        ///
        /// Records the fence for the name, and locks the record until the transaction ends. All
        /// writers of the same data must hold the same lock. The namespace is part of its name.
        /// [`InTransaction::make_tables`] creates the table.
        ///
        /// # Errors
        /// - [`Lost`](lockwright_core::ErrorKind::Lost) with
        ///   [`Superseded`](lockwright_core::Reason::Superseded): a later holder has written. Roll
        ///   the transaction back.
        /// - [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput): a fence above
        ///   [`Fence::MAX`](lockwright_core::Fence::MAX), no open transaction, or a failed transaction.
        /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the table doesn't exist.
        /// - [`Denied`](lockwright_core::ErrorKind::Denied): the user may not change the table.
        /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): another transaction had locked the name for
        ///   longer than the user's limit on waits for locks; a deadlock, after which MySQL has
        ///   rolled the transaction back; on PostgreSQL at a level above `READ COMMITTED`, another
        ///   transaction has changed the record; or the connection broke.
        ///
        /// # Cancel safety
        /// May be dropped; the transaction must then be rolled back or dropped.
        pub async fn check_fence(tx: &mut $connection, fenced: &Fenced) -> Result<()> {
            DEFAULT.check_fence(tx, fenced).await
        }

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

            /// Returns the SQL that creates the tables.
            pub fn schema(&self) -> String {
                self.tables.expand(SCHEMA, $dialect::QUOTE)
            }

            /// Creates missing tables. Several clients may do so at once.
            ///
            /// # Errors
            /// [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput) in a transaction of
            /// MySQL, which the call would commit; [`Denied`](lockwright_core::ErrorKind::Denied),
            /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) for an unknown schema
            /// or database, [`Unavailable`](lockwright_core::ErrorKind::Unavailable).
            ///
            /// # Cancel safety
            /// May be dropped at any time; tables may then remain.
            pub async fn make_tables(&self, connection: &mut $connection) -> Result<()> {
                self.make(connection).await
            }

            /// Like [`lock_in_transaction`], with these tables.
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

            /// Like [`check_fence`](check_fence()), with these tables.
            pub async fn check_fence(&self, tx: &mut $connection, fenced: &Fenced) -> Result<()> {
                let arguments = [
                    ("name", Value::Text(fenced.name.as_str())),
                    ("fence", transaction::fence_value(fenced.fence, BACKEND)?),
                ];
                let rows = run(tx, &self.fence, &arguments)
                    .await
                    .map_err(|cause| failed(&cause).with_name(&fenced.name))?;
                transaction::compare(fenced, &rows, BACKEND)
            }

            /// Deletes some rows of names unused for `idle`, and returns their number. Repeat the
            /// call until it returns 0. No transaction waits for a sweep.
            ///
            /// `idle` must be longer than any holder can be paused, because a deleted fence rejects
            /// no write.
            ///
            /// # Errors
            /// [`InvalidInput`](lockwright_core::ErrorKind::InvalidInput) in a transaction of
            /// MySQL, which the call would commit; the errors of [`check_fence`](check_fence()).
            ///
            /// # Cancel safety
            /// May be dropped at any time; the rows are then deleted or not.
            pub async fn sweep(&self, connection: &mut $connection, idle: Duration) -> Result<u64> {
                self.sweep_tables(connection, &transaction::sweeping(idle)).await
            }
        }
    };
}
pub(crate) use in_transaction;

pub(crate) fn fence_value(fence: Fence, backend: &'static str) -> Result<Value<'static>> {
    let fence = fence.checked().map_err(|error| error.with_backend(backend))?;
    Ok(Value::Int(fence.get() as i64)) // A checked fence is far below `i64::MAX`.
}

pub(crate) fn compare(fenced: &Fenced, rows: &[Row], backend: &'static str) -> Result<()> {
    let highest = rows.last().ok_or(BadRow).and_then(|row| row.fence(0));
    let highest = highest.map_err(|bad| bad_row(bad, backend))?;
    if highest > fenced.fence {
        return Err(fenced.superseded(highest).with_backend(backend));
    }
    Ok(())
}

const STEP: i64 = 500;

pub(crate) fn sweeping(idle: Duration) -> [(&'static str, Value<'static>); 2] {
    let idle = idle.as_secs() + u64::from(idle.subsec_nanos() > 0);
    // Some servers can't subtract more than a hundred years from the current time.
    let idle = i64::try_from(idle).unwrap_or(i64::MAX).min(100 * 366 * 24 * 60 * 60);
    [("idle_s", Value::Int(idle)), ("limit", Value::Int(STEP))]
}

pub(crate) fn swept(rows: &[Row], backend: &'static str) -> Result<u64> {
    let number = rows.last().ok_or(BadRow).and_then(|row| row.int(0));
    let number = number.and_then(|number| u64::try_from(number).map_err(|_| BadRow));
    number.map_err(|bad| bad_row(bad, backend))
}

/// The result is never `Indeterminate`: a statement has no effect before the commit.
pub(crate) fn failed<D: Dialect>(cause: &sqlx::Error, backend: &'static str) -> Error {
    let (kind, message) = match cause {
        sqlx::Error::Database(_) => match D::judge(cause) {
            Some(verdict) if verdict.kind != ErrorKind::Indeterminate => {
                (verdict.kind, verdict.message)
            }
            Some(_) => {
                (ErrorKind::Unavailable, "the connection ended, and the transaction with it")
            }
            None => (ErrorKind::Unavailable, "the server can't carry out the request"),
        },
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
