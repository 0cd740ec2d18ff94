//! The conformance suite on a SQLite file.
#![forbid(unsafe_code)]

#[path = "suite/shelf.rs"]
mod shelf;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lockwright_conformance::{Factory, harness, problem, protect};
use lockwright_core::{LockName, Result};
use lockwright_sql::Sqlite;
use lockwright_sql::sqlite::{check_fence, make_fence_table};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool as Pool, SqlitePoolOptions};

use self::shelf::Shelf;

const BEGIN: &str = "BEGIN IMMEDIATE";
const PUT: &str = "REPLACE INTO shelf (name, value) VALUES (?, ?)";
const GET: &str = "SELECT value FROM shelf WHERE name = ?";

async fn connect(path: String) -> Result<Sqlite> {
    Sqlite::open(path).await
}

async fn shelf(file: PathBuf, name: LockName) -> Result<Shelf> {
    let patience = Duration::from_secs(20);
    let file = SqliteConnectOptions::new().filename(file).busy_timeout(patience);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(file.create_if_missing(true))
        .await
        .map_err(problem)?;
    let table = "CREATE TABLE IF NOT EXISTS shelf (name TEXT PRIMARY KEY, value INTEGER NOT NULL)";
    pool.execute(table).await.map_err(problem)?;
    make_fence_table(&mut *pool.acquire().await.map_err(problem)?).await?;
    Ok(Shelf { pool, name: name.to_string() })
}

fn main() -> ExitCode {
    harness::serve(connect, || {
        let folder = tempfile::tempdir()?;
        let [locks, shop] = ["locks.db", "shop.db"].map(|file| folder.path().join(file));
        let suite = Factory::at(locks.display().to_string(), connect)
            .protected(protect(move |name| shelf(shop.clone(), name)));
        Ok((folder, suite))
    })
}
