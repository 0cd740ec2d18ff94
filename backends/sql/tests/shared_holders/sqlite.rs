//! On a SQLite file.

use std::path::{Path, PathBuf};

use lockwright_core::DistributedLock;
use lockwright_sql::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, Executor};

use crate::rules::{self, Two};

struct Place {
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Place { file: folder.path().join("locks.db"), _folder: folder }
}

async fn start() -> (Place, Two) {
    let place = place();
    let two = two(&place).await;
    (place, two)
}

async fn two(place: &Place) -> Two {
    Two::new(open(&place.file).await, open(&place.file).await)
}

async fn open(file: &Path) -> Sqlite {
    Sqlite::open(file).await.unwrap()
}

rules::all!(start);

#[tokio::test]
async fn what_ran_out_is_swept_away() {
    let (place, Two(one, _)) = start().await;
    rules::leave_behind(&*one).await;
    one.sweep(std::time::Duration::ZERO).await.unwrap();
    let left = sqlx::query("SELECT * FROM lockwright_beside")
        .fetch_all(&mut raw(&place).await)
        .await
        .unwrap();
    assert!(left.is_empty(), "{} rows are left", left.len());
}

#[tokio::test]
async fn a_file_of_the_first_layout_is_completed() {
    let place = place();
    drop(open(&place.file).await);
    let mut raw = raw(&place).await;
    raw.execute("DROP TABLE lockwright_beside").await.unwrap();
    let two = two(&place).await;
    assert!(two.0.doctor().await.unwrap().is_empty());
    rules::a_writer_that_waits_comes_next(two).await;
}

async fn raw(place: &Place) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&place.file))
        .await
        .unwrap()
}
