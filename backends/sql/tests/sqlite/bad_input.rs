use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use lockwright_sql::Sqlite;

use crate::doctor::codes;
use crate::support::*;

#[tokio::test]
async fn a_path_that_cannot_be_a_lock_file() {
    let place = Place::new();
    let file = place.folder().join("file");
    fs::write(&file, "a").unwrap();
    for (path, says) in [
        (place.folder().to_owned(), "is a folder"),
        ("/".into(), "is a folder"),
        (place.folder().join("no/locks.db"), "make it"),
        (file.join("locks.db"), "folder"),
        ("/dev/null".into(), "not an ordinary file"),
    ] {
        refused(Sqlite::open(path).await, ErrorKind::InvalidConfig, says);
    }
    assert!(Sqlite::open("").await.is_err());
}

#[tokio::test]
async fn a_file_that_is_not_a_database() {
    let place = Place::new();
    fs::write(place.file(), "no database, but longer than the header of one: ".repeat(100))
        .unwrap();
    let before = fs::read(place.file()).unwrap();
    let answer = Sqlite::open(place.file()).await;
    let error = refused(answer, ErrorKind::InvalidConfig, "not a SQLite database");
    assert!(error.to_string().contains("locks.db"), "{error}");
    assert_eq!(fs::read(place.file()).unwrap(), before, "it was changed");
}

#[tokio::test]
async fn a_damaged_file_is_no_reason_to_try_again() {
    let place = Place::new();
    place.close(place.open().await).await;
    let sound = fs::read(place.file()).unwrap();
    // Damages the page of the table definitions, which follows the file's header.
    let mut damaged = sound.clone();
    damaged[100..4096].fill(0xff);
    fs::write(place.file(), damaged).unwrap();
    let error = refused(Sqlite::open(place.file()).await, ErrorKind::InvalidConfig, "damaged");
    assert_eq!(format!("{error:?}").matches("sqlite: ").count(), 1, "{error:?}");
    fs::write(place.file(), &sound[..4096]).unwrap();
    refused(Sqlite::open(place.file()).await, ErrorKind::InvalidConfig, "");

    // Opening the file doesn't read the holds, so that the doctor can run on a damaged file.
    let mut damaged = sound;
    damaged[8192..].fill(0xff);
    fs::write(place.file(), damaged).unwrap();
    let answer = place.open().await.try_acquire(&claim_for("x", LONG)).await;
    refused(answer, ErrorKind::InvalidConfig, "");

    for change in ["DELETE FROM lockwright_meta", "DROP TABLE lockwright_lease"] {
        let place = Place::new();
        place.close(place.open().await).await;
        sql(&mut place.raw().await, change).await;
        match Sqlite::open(place.file()).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}"),
            Ok(backend) => {
                let error = backend.acquire(&claim_for("x", LONG), Wait::No).await.unwrap_err();
                assert!(!error.is_transient(), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_newer_file_is_refused_and_left_alone() {
    let place = Place::new();
    place.close(place.open().await).await;
    sql(&mut place.raw().await, "UPDATE lockwright_meta SET version = 99").await;
    refused(Sqlite::open(place.file()).await, ErrorKind::InvalidConfig, "version 99");
}

#[tokio::test]
async fn the_tables_live_beside_an_applications_own() {
    let place = Place::new();
    let mut raw = place.raw().await;
    sql(&mut raw, "CREATE TABLE mine (a); PRAGMA user_version = 7").await;
    let backend = place.open().await;
    grant(&backend, &claim_for("x", LONG)).await;
    sql(&mut raw, "INSERT INTO mine VALUES (1)").await;
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut raw).await.unwrap();
    assert_eq!(version, 7);
}

#[tokio::test]
async fn a_read_only_file_system() {
    refused(Sqlite::open("/proc/sys/kernel/locks.db").await, ErrorKind::Denied, "");
}

fn start_as_another_user(place: &Place) -> Process {
    let mut command = this_binary();
    if rustix::process::geteuid().is_root() {
        let program = place.folder().join("program");
        // `install` writes the copy. If this process wrote it, a child of another test might
        // inherit the file open for writing, and the copy couldn't be run.
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(std::env::current_exe().unwrap()).arg(&program);
        assert!(install.status().unwrap().success());
        command = Command::new(program);
        command.uid(65_534).gid(65_534);
    }
    command.current_dir("/");
    start_as(command, "not-allowed-to-write", place.folder())
}

#[tokio::test]
async fn a_file_or_folder_that_cannot_be_written() {
    let place = Place::new();
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    place.close(place.open().await).await;
    mode(&place.file(), 0o666);
    mode(place.folder(), 0o777);
    let mut other = start_as_another_user(&place);
    assert_eq!(other.next_line(), "[]");
    mode(&place.file(), 0o444);
    mode(place.folder(), 0o555);
    other.go_on();
    assert_eq!(other.next_line(), r#"["not-writable", "not-writable"]"#);
    assert_eq!(other.next_line(), "Denied: locks.db");
    // All users may write the file, but can't create its log in the folder.
    mode(&place.file(), 0o666);
    other.go_on();
    assert_eq!(other.next_line(), "Denied: folder");
    mode(place.folder(), 0o777);
    other.go_on();
    assert_eq!(other.next_line(), "granted");
    other.finish();
}

pub(crate) async fn as_another_user(file: &Path) {
    let backend = Sqlite::open(file).await.unwrap();
    print(format_args!("{:?}", codes(&backend).await));
    listen();
    print(format_args!("{:?}", codes(&backend).await));
    drop(backend);
    for _ in 0..2 {
        let error = Sqlite::open(file).await.expect_err("it was opened");
        let is_file = format!("{error:?}").contains("locks.db\" can't");
        print(format_args!("{:?}: {}", error.kind(), if is_file { "locks.db" } else { "folder" }));
        listen();
    }
    grant(&Sqlite::open(file).await.unwrap(), &claim_for("x", LONG)).await;
    print("granted");
}

#[tokio::test]
async fn foreign_row_is_a_conflict() {
    let place = Place::new();
    let backend = place.open().await;
    let claim = claim_for("x", LONG);
    grant(&backend, &claim).await;
    let mut raw = place.raw().await;
    sql(&mut raw, "UPDATE lockwright_lease SET token = 'semaphore of many', mode = 'permits'")
        .await;
    let answer = backend.try_acquire(&claim_for("x", LONG)).await;
    refused(answer, ErrorKind::Conflict, "run the doctor");
    refused(backend.inspect(&claim.name).await, ErrorKind::Conflict, "run the doctor");
}
