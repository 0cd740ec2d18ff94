//! The conformance suite on a SQLite file.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockwright_conformance::{
    Connect, Factory, Protect, Protected, child, connector, harness, protect,
};
use lockwright_core::fencing::Fenced;
use lockwright_core::{Clock, Error, LockName, Result, async_trait};
use lockwright_sql::Sqlite;
use lockwright_sql::sqlite::{check_fence, make_fence_table};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

/// The lock file. The application has its own file next to it.
struct File(PathBuf);

struct Shelf {
    pool: SqlitePool,
    name: String,
}

fn said(error: sqlx::Error) -> Error {
    Error::unavailable(error.to_string())
}

impl Shelf {
    async fn open(file: PathBuf, name: LockName) -> Result<Self> {
        // Longer than a busy machine takes.
        let patience = Duration::from_secs(20);
        let file = SqliteConnectOptions::new().filename(file).busy_timeout(patience);
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(file.create_if_missing(true))
            .await
            .map_err(said)?;
        let table =
            "CREATE TABLE IF NOT EXISTS shelf (name TEXT PRIMARY KEY, value INTEGER NOT NULL)";
        pool.execute(table).await.map_err(said)?;
        make_fence_table(&mut *pool.acquire().await.map_err(said)?).await?;
        Ok(Self { pool, name: name.to_string() })
    }
}

#[async_trait]
impl Protected for Shelf {
    async fn write(&self, fenced: &Fenced, value: u64) -> Result<()> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(said)?;
        check_fence(&mut tx, fenced.name.as_str(), fenced.fence).await?;
        let put = sqlx::query("REPLACE INTO shelf (name, value) VALUES (?, ?)");
        let put = put.bind(&self.name).bind(value as i64);
        put.execute(&mut *tx).await.map_err(said)?;
        tx.commit().await.map_err(said)
    }

    async fn read(&self) -> Result<Option<u64>> {
        let get = sqlx::query_scalar("SELECT value FROM shelf WHERE name = ?").bind(&self.name);
        let found: Option<i64> = get.fetch_optional(&self.pool).await.map_err(said)?;
        Ok(found.map(i64::unsigned_abs))
    }
}

#[async_trait]
impl Factory for File {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        let path = self.0.clone();
        Ok(connector(move || {
            let path = path.clone();
            async move { Sqlite::open(path).await }
        }))
    }

    fn protected(&self) -> Option<Protect> {
        let file = self.0.with_file_name("shop.db");
        Some(protect(move |name| Shelf::open(file.clone(), name)))
    }

    fn child(&self) -> Option<Command> {
        child::this_program(self.0.to_str()?)
    }
}

fn main() -> ExitCode {
    if let Some(code) = child::main(|path| async move { Sqlite::open(path).await }) {
        return code;
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("no temporary folder: {error}");
            return ExitCode::FAILURE;
        }
    };
    harness::main(File(folder.path().join("locks.db")))
}
