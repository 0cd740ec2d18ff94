use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use lockwright_sql::Sqlite;
use lockwright_sql::sqlite::{Config, Synchronous};

use crate::support::*;

pub(crate) async fn codes(backend: &Sqlite) -> Vec<&'static str> {
    let findings = backend.doctor().await.unwrap();
    for finding in &findings {
        assert!(finding.severity >= Severity::Warning);
        for text in [&finding.what, &finding.why, &finding.fix] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{finding:?}");
        }
    }
    findings.iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn a_journal_mode_other_than_wal() {
    let place = Place::new();
    place.close(place.open().await).await;
    let mut raw = place.raw().await;
    sql(&mut raw, "PRAGMA journal_mode = DELETE").await;
    // While this transaction reads, the backend can't change the journal mode.
    sql(&mut raw, "BEGIN; SELECT * FROM lockwright_meta").await;
    let backend = place.open().await;
    assert_eq!(codes(&backend).await, ["journal-mode"]);
    sql(&mut raw, "COMMIT").await;
    grant(&backend, &claim_for("x", LONG)).await;
    assert!(is_busy(&backend, &claim_for("x", LONG)).await);
}

#[tokio::test]
async fn synchronous_lower_than_full() {
    let place = Place::new();
    let config = Config::file(place.file()).synchronous(Synchronous::Normal);
    assert_eq!(codes(&config.connect().await.unwrap()).await, ["synchronous"]);
}

#[tokio::test]
async fn tables_that_were_changed_under_way() {
    let place = Place::new();
    let backend = place.open().await;
    grant(&backend, &claim_for("x", LONG)).await;
    let mut raw = place.raw().await;
    sql(&mut raw, "UPDATE lockwright_meta SET version = 2").await;
    sql(&mut raw, "UPDATE lockwright_lease SET token = 'mine'").await;
    assert_eq!(codes(&backend).await, ["unknown-version", "foreign-rows"]);
    sql(&mut raw, "DROP TABLE lockwright_meta").await;
    assert_eq!(codes(&backend).await, ["unreadable"]);
}

#[tokio::test]
async fn a_damaged_file() {
    let place = Place::new();
    let backend = place.open().await;
    for i in 0..200 {
        grant(&backend, &claim_for(&format!("n{i}"), LONG)).await;
    }
    place.close(backend).await;
    let mut raw = place.raw().await;
    let root: i64 =
        sqlx::query_scalar("SELECT rootpage FROM sqlite_schema WHERE name = 'lockwright_lease'")
            .fetch_one(&mut raw)
            .await
            .unwrap();
    sqlx::Connection::close(raw).await.unwrap();
    let file = OpenOptions::new().write(true).open(place.file()).unwrap();
    file.write_all_at(&[0xa5; 2_000], (root as u64 - 1) * 4_096 + 1_000).unwrap();
    drop(file);
    assert_eq!(codes(&place.open().await).await, ["damaged"]);
}

#[tokio::test]
async fn a_file_that_was_removed() {
    let place = Place::new();
    let backend = place.open().await;
    fs::remove_file(place.file()).unwrap();
    assert_eq!(codes(&backend).await, ["file-system-unknown", "not-writable", "unreadable"]);
}
