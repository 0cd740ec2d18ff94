//! Opens the lock file: checks, settings and tables.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{Error, ErrorKind, Result};
use rustix::fs::Access;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};

use super::config::Synchronous;
use super::errors::{Failure, is_busy};
use super::file_system;

macro_rules! patiently {
    ($limit:expr, $attempt:expr) => {{
        let since = std::time::Instant::now();
        let mut tries = 0;
        loop {
            match $attempt.await {
                Err(e) if $crate::sqlite::errors::is_busy(&e) && since.elapsed() < $limit => {
                    tries += 1;
                    $crate::sqlite::connection::pause(tries, since).await;
                }
                other => break other,
            }
        }
    }};
}
pub(super) use patiently;

pub(super) const VERSION: i64 = 1;

pub(super) const SCHEMA: &str = include_str!("../../schema/sqlite.sql");

#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) path: Arc<Path>,
    pub(super) synchronous: Synchronous,
    pub(super) any_file_system: bool,
    pub(super) boot: Arc<str>,
}

type FileId = (u64, u64);

#[derive(Debug)]
pub(super) struct Open {
    pub(super) connection: SqliteConnection,
    id: FileId,
}

impl Database {
    pub(super) async fn open_or_create(&self) -> Result<Open> {
        self.check_path()?;
        self.open(true).await
    }

    /// Opens the file again. A missing file isn't created: a second holder could acquire the lock
    /// in it.
    pub(super) async fn reopen(&self) -> Result<Open> {
        if let Err(source) = file_id(&self.path) {
            return Err(Error::unavailable(format!(
                "the lock file {:?} is gone; put it back, or open a new one",
                self.path
            ))
            .with_backend("sqlite")
            .with_source(source));
        }
        self.open(false).await
    }

    /// Returns the path of SQLite's write-ahead log. If the lock file is a symbolic link, the log
    /// is next to the link's target.
    pub(super) fn log(&self) -> PathBuf {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.to_path_buf());
        let mut log = path.into_os_string();
        log.push("-wal");
        PathBuf::from(log)
    }

    pub(super) fn is_still(&self, open: &Open) -> bool {
        // Only calls `stat`, because closing an opened file would drop SQLite's locks.
        file_id(&self.path).is_ok_and(|id| id == open.id)
    }

    fn check_path(&self) -> Result<()> {
        use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};

        let path = &self.path;
        let folder = path.parent().ok_or_else(|| self.refused("is a folder; name a file"))?;
        match std::fs::metadata(path.as_ref()) {
            Ok(found) if found.is_dir() => return Err(self.refused("is a folder; name a file")),
            Ok(found) if !found.is_file() => return Err(self.refused("is not an ordinary file")),
            Ok(_) => writable(path).map_err(|e| self.denied(path, e))?,
            Err(e) if matches!(e.kind(), NotFound | NotADirectory) => {
                match std::fs::metadata(folder) {
                    Ok(found) if found.is_dir() => {}
                    Ok(_) => {
                        return Err(self.refused("can't be created: its parent is not a folder"));
                    }
                    Err(e) => {
                        let why =
                            format!("can't be created: there is no folder {folder:?}; make it");
                        return Err(self.refused(&why).with_source(e));
                    }
                }
            }
            Err(e) if e.kind() == PermissionDenied => {
                return Err(self.denied(path, e));
            }
            Err(e) => return Err(self.refused("can't be looked at").with_source(e)),
        }
        self.check_file_system(if path.exists() { path.as_ref() } else { folder })?;
        writable(folder).map_err(|e| self.denied(folder, e))
    }

    fn check_file_system(&self, place: &Path) -> Result<()> {
        match file_system::network(place) {
            Ok(Some(kind)) if !self.any_file_system => Err(self.refused(&format!(
                "is on a file system that other machines may share ({kind}), and two machines don't \
                 exclude each other; put the file on a local disk, or keep the locks on a server; if \
                 only this machine uses the file, add file_system=any to the URL"
            ))),
            _ => Ok(()),
        }
    }

    async fn open(&self, create: bool) -> Result<Open> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(create)
            .foreign_keys(false)
            // On macOS, fsync leaves data in the disk's write cache. Other systems ignore this.
            .pragma("fullfsync", "ON")
            // `patiently!` retries instead, because SQLite's own retries sleep for up to 100 ms.
            .busy_timeout(Duration::ZERO)
            .thread_name(|_| "lockwright-sqlite".to_owned())
            .disable_statement_logging();
        let connected = patiently!(BUSY_LIMIT, options.connect());
        let mut connection = connected.map_err(|e| self.failed(e))?;
        // A symbolic link or a mount may put a new file on another file system than its folder.
        self.check_file_system(&self.path)?;
        self.prepare(&mut connection).await?;
        let id = file_id(&self.path).map_err(|source| {
            Error::unavailable("the lock file was removed while it was opened; try again")
                .with_backend("sqlite")
                .with_source(source)
        })?;
        Ok(Open { connection, id })
    }

    async fn prepare(&self, connection: &mut SqliteConnection) -> Result<()> {
        use_write_ahead_log(connection).await.map_err(|e| self.failed(e))?;
        let synchronous = match self.synchronous {
            Synchronous::Full => "PRAGMA synchronous = FULL",
            Synchronous::Normal => "PRAGMA synchronous = NORMAL",
        };
        sqlx::query(synchronous).execute(&mut *connection).await.map_err(|e| self.failed(e))?;

        let version = patiently!(BUSY_LIMIT, version_or_create(connection));
        let version = version.map_err(|e| self.failed(e))?;
        if version != VERSION {
            return Err(self.refused(&format!(
                "has tables of version {version}, and this version of Lockwright supports version \
                 {VERSION}; use the same version everywhere, or another file"
            )));
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> Error {
        Error::invalid_config(format!("{:?} {why}", self.path)).with_backend("sqlite")
    }

    fn denied(&self, what: &Path, source: io::Error) -> Error {
        let message = if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
            format!("{what:?} is on a read-only file system; put the lock file elsewhere")
        } else {
            format!("{what:?} can't be written by this user; change its permissions or its place")
        };
        Error::new(ErrorKind::Denied, message).with_backend("sqlite").with_source(source)
    }

    fn failed(&self, error: sqlx::Error) -> Error {
        // Opening the file changes no lock.
        Failure::without_effect(error).to_error(&format!("can't open {:?}: ", self.path))
    }
}

/// Checks write access, assuming that the real and effective users are the same.
pub(super) fn writable(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(path, Access::WRITE_OK)?)
}

fn file_id(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Switches to WAL mode, which needs exclusive access. While others use it, the file keeps its old
/// mode, which is slower but equally safe.
async fn use_write_ahead_log(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let switched = patiently!(
        Duration::from_secs(1),
        sqlx::query("PRAGMA journal_mode = WAL").fetch_one(&mut *connection)
    );
    match switched {
        Err(e) if is_busy(&e) => Ok(()),
        switched => switched.map(drop),
    }
}

async fn version_or_create(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    if !has_tables(connection).await? {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        // Another process may have created the tables before this one got the write lock.
        if !has_tables(&mut transaction).await? {
            sqlx::raw_sql(SCHEMA).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
    }
    version(connection).await
}

async fn has_tables(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    let tables = sqlx::query("SELECT 1 FROM sqlite_schema WHERE name = 'lockwright_meta'");
    Ok(tables.fetch_optional(connection).await?.is_some())
}

pub(super) async fn version(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query("SELECT version FROM lockwright_meta").fetch_one(connection).await?.try_get(0)
}

/// The limit on waiting for the write lock, which another process normally keeps only for one sync
/// of the disk.
pub(super) const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Pauses after an attempt: only yields at first, later for 1 ms to 5 ms.
pub(super) async fn pause(tries: u64, since: Instant) {
    const ON_THE_SPOT: u64 = 4;

    if tries <= ON_THE_SPOT {
        return tokio::task::yield_now().await;
    }
    // Uneven pauses keep processes from retrying at the same time.
    let longest = (tries - ON_THE_SPOT).min(5);
    let uneven = u64::from(since.elapsed().subsec_nanos()) % longest;
    tokio::time::sleep(Duration::from_millis(1 + uneven)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_bypass_the_write_cache_on_macos() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database {
            path: folder.path().join("locks.db").into(),
            synchronous: Synchronous::Full,
            any_file_system: true,
            boot: "boot".into(),
        };
        let mut connection = database.open(true).await.unwrap().connection;
        let fullfsync = sqlx::query_scalar::<_, i64>("PRAGMA fullfsync").fetch_one(&mut connection);
        assert_eq!(fullfsync.await.unwrap(), 1);
    }
}
