use std::sync::Arc;

use lockwright_core::{Error, ErrorKind};

#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// True if the change may have been written.
    pub(super) is_in_doubt: bool,
    source: Arc<sqlx::Error>,
}

const OTHER_TABLES: &str = "the lock file's tables are not as Lockwright made them; name another \
                            file, or stop all processes that use this one and delete it";

// Primary result codes: https://www.sqlite.org/rescode.html
const ERROR: i32 = 1;
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const READONLY: i32 = 8;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const CONSTRAINT: i32 = 19;
const AUTH: i32 = 23;
const NOTADB: i32 = 26;

fn code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(BUSY | LOCKED))
}

pub(super) fn is_refused(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(PERM | READONLY | CANTOPEN | AUTH))
}

pub(super) fn lacks_a_table(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(ERROR))
}

impl Failure {
    /// Some codes prove that nothing was written. A failed write or sync of the log doesn't:
    /// recovery may apply a record that reached the disk.
    pub(super) fn of_statement(error: sqlx::Error) -> Self {
        let has_no_effect = matches!(
            code(&error),
            Some(ERROR | PERM | BUSY | LOCKED | READONLY | CANTOPEN | CONSTRAINT | AUTH | NOTADB)
        );
        Self { is_in_doubt: !has_no_effect, source: Arc::new(error) }
    }

    pub(super) fn without_effect(error: sqlx::Error) -> Self {
        Self { is_in_doubt: false, source: Arc::new(error) }
    }

    pub(super) fn in_doubt(error: sqlx::Error) -> Self {
        Self { is_in_doubt: true, source: Arc::new(error) }
    }

    pub(super) fn was_busy(&self) -> bool {
        is_busy(&self.source)
    }

    pub(super) fn to_error(&self, what: &str) -> Error {
        let code = code(&self.source);
        let (kind, message) = match code {
            Some(BUSY | LOCKED) => (
                ErrorKind::Unavailable,
                "another process keeps the lock file locked; if it is stopped, continue or end it",
            ),
            Some(PERM | READONLY | AUTH) => {
                (ErrorKind::Denied, "the lock file can't be written; check its permissions")
            }
            Some(CANTOPEN) => (
                ErrorKind::Denied,
                "the lock file or the files next to it (-wal, -shm) can't be opened; check the \
                 folder and its permissions",
            ),
            Some(NOTADB) => (
                ErrorKind::InvalidConfig,
                "the file is not a SQLite database; name another, or delete it if it isn't needed",
            ),
            // A retry fails until the user acts, so the kind isn't `Unavailable`.
            Some(CORRUPT) => (
                ErrorKind::InvalidConfig,
                "the lock file is damaged; stop all processes that use it and delete it",
            ),
            Some(ERROR) => (ErrorKind::InvalidConfig, OTHER_TABLES),
            Some(CONSTRAINT) => (
                ErrorKind::Conflict,
                "the lock file's rows or its counter of fences were changed by hand, or the \
                 counter has reached its end; run the doctor",
            ),
            None if matches!(*self.source, sqlx::Error::RowNotFound) => {
                (ErrorKind::InvalidConfig, OTHER_TABLES)
            }
            Some(FULL) => (ErrorKind::Unavailable, "the disk is full; make room"),
            _ if is_foreign_row(&self.source) => (
                ErrorKind::Conflict,
                "the lock file has a row that Lockwright didn't write; run the doctor",
            ),
            _ => (ErrorKind::Unavailable, "the lock file failed"),
        };
        // A damaged file must be deleted, with any written claim.
        let is_in_doubt = self.is_in_doubt && code != Some(CORRUPT);
        let kind = if is_in_doubt { ErrorKind::Indeterminate } else { kind };
        Error::new(kind, format!("{what}{message}"))
            .with_backend("sqlite")
            .with_source(self.source.clone())
    }
}

pub(super) fn is_foreign_row(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_))
}
