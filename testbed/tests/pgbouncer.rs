//! PgBouncer forwards requests and ends with its value.

use std::process::Command;

use lockwright_testbed::{PgBouncer, Postgres};

mod support;
use support::assert_gone;

#[test]
fn it_passes_queries_on_and_is_gone_when_dropped() {
    let server = Postgres::options().password("it's a secret").start().unwrap();
    let pool = PgBouncer::in_front_of(&server).start().unwrap();
    assert_eq!(
        pool.sql("SELECT current_user, current_database()").unwrap(),
        "lockwright|lockwright"
    );
    let psql = Command::new("psql").args(["-XAtc", "SELECT 6 * 7", &pool.url()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&psql.stdout), "42\n", "{psql:?}");
    let wrong = pool.url().replace("pooled:", "pooled:not-");
    assert!(
        !Command::new("psql").args(["-Xc", "SELECT 1", &wrong]).output().unwrap().status.success()
    );
    let pid = pool.process().pid();
    drop(pool);
    assert_gone(pid);
    assert_eq!(server.sql("SELECT 1").unwrap(), "1");
}

#[test]
fn it_pools_as_it_is_told() {
    let server = Postgres::start().unwrap();
    let transactions = PgBouncer::in_front_of(&server).start().unwrap();
    assert!(transactions.command("SHOW CONFIG;").unwrap().contains("pool_mode|transaction|"));
    let session = || transactions.sql("SELECT pg_backend_pid()").unwrap();
    assert_eq!(session(), session(), "the server's session is used again");
    for mode in ["session", "statement"] {
        let pool = PgBouncer::in_front_of(&server).pool_mode(mode).start().unwrap();
        let several = pool.sql("BEGIN;\nSELECT 1;\nCOMMIT;");
        assert_eq!(several.is_ok(), mode == "session", "{several:?}");
    }
}

#[test]
fn it_can_be_frozen_killed_and_started_again() {
    let server = Postgres::start().unwrap();
    let mut pool = PgBouncer::in_front_of(&server).start().unwrap();
    let port = pool.port();
    pool.freeze();
    let mut waiting = Command::new("psql");
    waiting.args(["-XAtc", "SELECT 1", &pool.url()]).env("PGCONNECT_TIMEOUT", "2");
    assert!(!waiting.output().unwrap().status.success(), "it doesn't answer");
    pool.thaw();
    assert!(waiting.output().unwrap().status.success());
    pool.kill();
    assert!(pool.sql("SELECT 1").is_err());
    pool.restart().unwrap();
    assert_eq!(pool.port(), port);
    assert_eq!(pool.sql("SELECT 1").unwrap(), "1");
}
