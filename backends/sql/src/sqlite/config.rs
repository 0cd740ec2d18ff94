use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockwright_core::{Clock, Error, Result};

use super::Sqlite;
use super::boot::boot_id;
use super::connection::Database;
use super::wakeup::Waiters;
use super::writer::Jobs;

/// The worst fault that a returned grant survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// A grant survives even a power cut, because each grant and each release waits once for the
    /// disk. Fences never repeat.
    #[default]
    Full,
    /// A grant survives the crash of any process, but not a power cut, because requests don't wait
    /// for the disk. A power cut may undo the file's last seconds. All holds end with the restart,
    /// but **fences may repeat**.
    Normal,
}

/// Settings of a [`Sqlite`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected before `connect`"]
pub struct Config {
    path: PathBuf,
    synchronous: Synchronous,
    any_file_system: bool,
    clock: Clock,
}

impl Config {
    /// Creates settings for the file at `path`.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            synchronous: Synchronous::default(),
            any_file_system: false,
            clock: Clock::boot(),
        }
    }

    /// Parses a URL: `sqlite:PATH` or `sqlite://PATH`, with `?synchronous=full` (the default) or
    /// `?synchronous=normal`, and `?file_system=local` (the default) or
    /// [`?file_system=any`](Config::any_file_system).
    ///
    /// - `sqlite:locks.db` is relative to the current folder. An absolute path keeps its slash:
    ///   `sqlite:/var/lib/locks.db`, `sqlite:///var/lib/locks.db`.
    /// - The path isn't percent-decoded. A path with a question mark needs [`Config::file`].
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) if the URL is invalid.
    pub fn new(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            invalid("the URL of a lock file begins with sqlite:, as in sqlite:/var/lib/locks.db")
        })?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err(invalid("the URL names no file; write sqlite:PATH"));
        }
        if path.starts_with(":memory:") {
            return Err(invalid(
                "a SQLite database in memory can't be shared; use memory: for locks inside one \
                 process, or sqlite:PATH",
            ));
        }
        let mut config = Self::file(path);
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            config = match parameter {
                "synchronous=full" => config.synchronous(Synchronous::Full),
                "synchronous=normal" => config.synchronous(Synchronous::Normal),
                "file_system=local" => Self { any_file_system: false, ..config },
                "file_system=any" => config.any_file_system(),
                _ => {
                    return Err(invalid(format!(
                        "the URL has an unknown parameter {:?}; use synchronous=full, \
                         synchronous=normal, file_system=local or file_system=any",
                        lockwright_core::redact::url(&format!("?{parameter}")).trim_matches('?'),
                    )));
                }
            };
        }
        Ok(config)
    }

    /// Sets the worst fault that a grant survives.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Allows a file system that other machines may share, such as NFS, SMB or sshfs. Even so, only
    /// one machine may use the file: machines don't exclude each other.
    pub fn any_file_system(mut self) -> Self {
        self.any_file_system = true;
        self
    }

    /// Sets another clock, for tests. All users of the file must have the same clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the SQL that creates the tables.
    pub fn schema(&self) -> String {
        super::connection::SCHEMA.to_owned()
    }

    /// Opens the file, and starts its task on the current runtime. Creates the file and its tables
    /// if they are missing, but not the folder.
    ///
    /// # Cancel safety
    /// May be dropped at any time. A new file or new tables may then remain.
    ///
    /// # Errors
    /// - [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the folder doesn't exist or
    ///   is on a shared file system, or the path isn't a file. Or the file isn't a database, is
    ///   damaged, or has tables that this version doesn't support.
    /// - [`Denied`](lockwright_core::ErrorKind::Denied): the file or the folder can't be written.
    /// - [`Unavailable`](lockwright_core::ErrorKind::Unavailable): another process keeps the file
    ///   locked for too long, or the boot id can't be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn connect(self) -> Result<Sqlite> {
        let database = Database {
            path: Arc::from(std::path::absolute(&self.path).map_err(|source| {
                invalid(format!("{:?} is no path of a file", self.path)).with_source(source)
            })?),
            synchronous: self.synchronous,
            any_file_system: self.any_file_system,
            boot: boot_id()?,
        };
        let connection = database.open_or_create().await?;
        let waiters = Arc::new(Waiters::new(&database, self.clock.clone()));
        let jobs = Jobs::start(&database, connection, &waiters, self.clock);
        Ok(Sqlite { database, jobs, waiters })
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid_config(message).with_backend("sqlite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, path) in [
            ("sqlite:locks.db", "locks.db"),
            ("sqlite://locks.db", "locks.db"),
            ("sqlite:/a/locks.db", "/a/locks.db"),
            ("sqlite:///a/locks.db?synchronous=full", "/a/locks.db"),
        ] {
            let config = Config::new(url).unwrap();
            assert_eq!(config.path, Path::new(path));
            assert_eq!(config.synchronous, Synchronous::Full);
        }
        let normal = Config::new("sqlite:x?synchronous=normal").unwrap();
        assert_eq!(normal.synchronous, Synchronous::Normal);
    }

    #[test]
    fn bad_urls_say_what_would_be_right() {
        for (url, says) in [
            ("postgres://x", "begins with sqlite:"),
            ("sqlite:", "sqlite:PATH"),
            ("sqlite://", "sqlite:PATH"),
            ("sqlite::memory:", "use memory:"),
            ("sqlite://:memory:", "use memory:"),
            ("sqlite:x?mode=ro", "synchronous=full"),
            ("sqlite:x?synchronous=off", "synchronous=normal"),
        ] {
            let error = Config::new(url).unwrap_err();
            assert_eq!(error.kind(), lockwright_core::ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(says), "{error}");
        }
        let error = Config::new("sqlite:x?password=hush").unwrap_err();
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }
}
