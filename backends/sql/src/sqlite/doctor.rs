use std::path::Path;

use lockwright_core::{Error, Finding};
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::connection::{Database, VERSION, version, writable};
use super::file_system;
use super::statements::query;
use lockwright_core::backend_util::finding;

#[derive(Debug)]
pub(super) struct Examination {
    journal_mode: String,
    synchronous: i64,
    version: i64,
    foreign_rows: i64,
    integrity: String,
}

pub(super) async fn examine(connection: &mut SqliteConnection) -> sqlx::Result<Examination> {
    let integrity: String = pragma(connection, "PRAGMA quick_check(1)").await?.try_get(0)?;
    // Rows of a damaged table can't be counted.
    let foreign_rows = if integrity == SOUND {
        query!("foreign_rows").fetch_one(&mut *connection).await?.try_get(0)?
    } else {
        0
    };
    Ok(Examination {
        journal_mode: pragma(connection, "PRAGMA journal_mode").await?.try_get(0)?,
        synchronous: pragma(connection, "PRAGMA synchronous").await?.try_get(0)?,
        version: version(connection).await?,
        foreign_rows,
        integrity,
    })
}

const SOUND: &str = "ok";

async fn pragma(
    connection: &mut SqliteConnection,
    sql: &'static str,
) -> sqlx::Result<sqlx::sqlite::SqliteRow> {
    sqlx::query(sql).fetch_one(connection).await
}

pub(super) fn findings(
    database: &Database,
    examination: Result<Examination, Error>,
) -> Vec<Finding> {
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
    match examination {
        Ok(examination) => contents(&examination, &mut findings),
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

fn contents(found: &Examination, findings: &mut Vec<Finding>) {
    const FULL: i64 = 2;

    if found.journal_mode != "wal" {
        findings.push(finding::warning(
            "journal-mode",
            format!("the journal mode is {:?}, not \"wal\"", found.journal_mode),
            "readers keep writers waiting and the other way round, and each grant waits for \
                  the disk several times",
            "stop all processes that use the file, then open it again: the mode is changed \
                 when no other process has it open",
        ));
    }
    if found.synchronous < FULL {
        findings.push(finding::warning(
            "synchronous",
            "this process writes without waiting for the disk",
            "after a power cut fences may repeat",
            "remove synchronous=normal from the URL, unless nothing relies on fences",
        ));
    }
    if found.version != VERSION {
        findings.push(finding::error(
            "unknown-version",
            format!("the tables are of version {}, not {VERSION}", found.version),
            "another version of Lockwright has changed them while this one was running",
            "use the same version of Lockwright in all processes",
        ));
    }
    if found.foreign_rows > 0 {
        findings.push(finding::error(
            "foreign-rows",
            format!("{} rows were not written by this version", found.foreign_rows),
            "their names can't be locked, or not safely",
            "find out which program writes to the table lockwright_lease, and delete those \
                  rows",
        ));
    }
    if found.integrity != SOUND {
        findings.push(finding::error(
            "damaged",
            format!("the file is damaged: {}", found.integrity),
            "rows may be missing, and with them holds and fences",
            "stop all processes that use it, delete it, and check the disk",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_object_is_a_finding() {
        let finding = file_system(Path::new("/no/such/file")).unwrap();
        assert_eq!(finding.code, "file-system-unknown");
    }
}
