//! The conformance suite on a SQLite file.
#![forbid(unsafe_code)]

#[path = "suite/shelf.rs"]
mod shelf;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use lockwright_conformance::{Connect, Factory, Protect, child, connector, harness, protect};
use lockwright_core::{Clock, LockName, Result, async_trait};
use lockwright_sql::Sqlite;
use lockwright_sql::sqlite::{check_fence, make_fence_table};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool as Pool, SqlitePoolOptions};

use self::shelf::{Shelf, from_sqlx};

/// The path of the locks' database. The application's database is next to it.
struct File(PathBuf);

const BEGIN: &str = "BEGIN IMMEDIATE";
const PUT: &str = "REPLACE INTO shelf (name, value) VALUES (?, ?)";
const GET: &str = "SELECT value FROM shelf WHERE name = ?";

async fn shelf(file: PathBuf, name: LockName) -> Result<Shelf> {
    let patience = Duration::from_secs(20);
    let file = SqliteConnectOptions::new().filename(file).busy_timeout(patience);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(file.create_if_missing(true))
        .await
        .map_err(from_sqlx)?;
    let table = "CREATE TABLE IF NOT EXISTS shelf (name TEXT PRIMARY KEY, value INTEGER NOT NULL)";
    pool.execute(table).await.map_err(from_sqlx)?;
    make_fence_table(&mut *pool.acquire().await.map_err(from_sqlx)?).await?;
    Ok(Shelf { pool, name: name.to_string() })
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
        Some(protect(move |name| shelf(file.clone(), name)))
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
