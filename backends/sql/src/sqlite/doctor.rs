use std::path::Path;

use lockwright_core::{Error, Finding};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query_scalar};

use super::connection::{Database, VERSION, version, writable};
use super::file_system;
use super::statements::query;
use lockwright_core::backend_util::finding;

pub(super) async fn examine(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
    const FULL: i64 = 2;

    let mut findings = Vec::new();
    let journal_mode: String =
        query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
    if journal_mode != "wal" {
        findings.push(finding::warning(
            "journal-mode",
            format!("the journal mode is {journal_mode:?}, not \"wal\""),
            "readers keep writers waiting and the other way round, and each grant waits for \
                  the disk several times",
            "stop all processes that use the file, then open it again: the mode is changed \
                 when no other process has it open",
        ));
    }
    let synchronous: i64 = query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
    if synchronous < FULL {
        findings.push(finding::warning(
            "synchronous",
            "this process writes without waiting for the disk",
            "after a power cut fences may repeat",
            "remove synchronous=normal from the URL, unless nothing relies on fences",
        ));
    }
    let version = version(connection).await?;
    if version != VERSION {
        findings.push(finding::error(
            "unknown-version",
            format!("the tables are of version {version}, not {VERSION}"),
            "another version of Lockwright has changed them while this one was running",
            "use the same version of Lockwright in all processes",
        ));
    }
    let integrity: String =
        query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *connection).await?;
    if integrity != "ok" {
        findings.push(finding::error(
            "damaged",
            format!("the file is damaged: {integrity}"),
            "rows may be missing, and with them holds and fences",
            "stop all processes that use it, delete it, and check the disk",
        ));
        // Rows of a damaged table can't be counted.
        return Ok(findings);
    }
    let foreign_rows: i64 = query!("foreign_rows").fetch_one(connection).await?.try_get(0)?;
    if foreign_rows > 0 {
        findings.push(finding::error(
            "foreign-rows",
            format!("{foreign_rows} rows were not written by this version"),
            "their names can't be locked, or not safely",
            "find out which program writes to the table lockwright_lease, and delete those \
                  rows",
        ));
    }
    Ok(findings)
}

pub(super) fn findings(database: &Database, contents: Result<Vec<Finding>, Error>) -> Vec<Finding> {
    let mut findings = Vec::from_iter(file_system(&database.path));
    for what in [Some(&*database.path), database.path.parent()].into_iter().flatten() {
        if let Err(error) = writable(what) {
            findings.push(finding::error(
                "not-writable",
                format!("{what:?} can't be written by this user: {error}"),
                "locks can't be acquired, renewed or released",
                "give the user write permission on the file and its folder",
            ));
        }
    }
    match contents {
        Ok(contents) => findings.extend(contents),
        Err(error) => findings.push(finding::error(
            "unreadable",
            format!("the lock file can't be examined: {}", chain(&error)),
            "requests fail in the same way, and the file couldn't be examined further",
            "follow the error's advice, then run the doctor again",
        )),
    }
    findings
}

fn chain(error: &Error) -> String {
    let error: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn file_system(path: &Path) -> Option<Finding> {
    match file_system::network(path) {
        Ok(network) => network.map(|kind| {
            finding::error(
                "network-file-system",
                format!("{path:?} is on a file system that other machines may share ({kind})"),
                "SQLite needs memory that all processes share, and working file locks; two \
                      machines could both get the same lock",
                "put the lock file on a local disk; for locks between machines, use a server",
            )
        }),
        Err(error) => Some(finding::warning(
            "file-system-unknown",
            format!("the file system of {path:?} can't be determined: {error}"),
            "a network file system would make the locks unsafe",
            "make sure that the file lies on a local disk",
        )),
    }
}
