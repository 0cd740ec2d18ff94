use std::path::Path;
use std::process::Command;

use lockwright_sql::Sqlite;

pub(crate) use self::common::*;
pub(crate) use self::process::{Process, ROLE, listen, print, this_binary};
pub(crate) use self::sqlite::{Place, sql};

#[path = "../support/common.rs"]
#[allow(dead_code, unused_imports, reason = "tests on servers use the rest")]
mod common;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "tests on servers use the rest")]
mod process;
#[path = "../support/sqlite.rs"]
mod sqlite;

/// Sends `requests` while an earlier request waits for the write lock, so they share a transaction.
pub(crate) async fn in_one_transaction<T>(
    place: &Place,
    backend: &Sqlite,
    requests: impl Future<Output = T>,
) -> T {
    let mut raw = place.raw().await;
    sql(&mut raw, "BEGIN IMMEDIATE").await;
    let first = backend.renew(&[]);
    let unlock = async {
        sleep(ms(50)).await;
        sql(&mut raw, "COMMIT").await;
    };
    let behind = async {
        sleep(ms(25)).await;
        requests.await
    };
    let (renewed, (), result) = tokio::join!(first, unlock, behind);
    assert!(renewed.unwrap().is_empty());
    result
}

pub(crate) const FOLDER: &str = "LOCKWRIGHT_TEST_FOLDER";

pub(crate) fn start(role: &str, folder: &Path) -> Process {
    start_as(this_binary(), role, folder)
}

pub(crate) fn start_as(command: Command, role: &str, folder: &Path) -> Process {
    Process::start(command, "processes::part", role, &[(FOLDER, folder.as_os_str())])
}
