use std::path::{Path, PathBuf};

use lockwright_sql::Sqlite;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

use crate::support::{ms, within};

pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub(crate) async fn open(&self) -> Sqlite {
        Sqlite::open(self.file()).await.unwrap()
    }

    pub(crate) async fn raw(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.file()).create_if_missing(true);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// Closes the last backend of the file, and waits until the file's log is gone.
    pub(crate) async fn close(&self, backend: Sqlite) {
        drop(backend);
        let log = self.folder.path().join("locks.db-wal");
        within(ms(5_000), "the log to be folded in", async || !log.exists()).await;
    }
}

pub(crate) async fn sql(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}
