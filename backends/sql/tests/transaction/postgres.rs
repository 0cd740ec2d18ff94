#[path = "fence.rs"]
mod fence;
#[path = "lock.rs"]
mod lock;
mod locks;
mod refusals;
#[path = "shop.rs"]
mod shop;
mod timeouts;
#[path = "waiting.rs"]
mod waiting;

use sqlx::{AssertSqlSafe, Row};

use self::server::{Connection, InTransaction, Server, count};
use crate::expect::PATIENCE;
use crate::support::{postgres as server, within};

const CREATE_SCHEMA: &str = "CREATE SCHEMA app AUTHORIZATION lockwright";

const TABLES: [(&str, &str); 1] = [("fence", "updated")];

const BEGIN: [&str; 1] = ["BEGIN"];

/// Statements that set a session's isolation level to one that the backend accepts.
const SET_LEVEL: &[&str] =
    &["SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"];

const SHORT_LIMIT: (&str, &str) = ("SET LOCAL lock_timeout = '200ms'", "lock_timeout");

const DEFAULT_LIMIT: &str = "0";
const SESSION_LIMIT: (&str, &str) = ("SET lock_timeout = '11s'", "11s");
const LOCAL_LIMIT: (&str, &str) = ("SET LOCAL lock_timeout = '7s'", "7s");

async fn limit(connection: &mut Connection) -> String {
    sqlx::query("SHOW lock_timeout").fetch_one(connection).await.unwrap().get(0)
}

const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";

fn advisory(server: &Server, granted: bool) -> usize {
    count(server, &format!("{LOCKS} = {granted}"))
}

async fn fence_by_sql(tx: &mut Connection, name: &str, fence: i64) -> i64 {
    let check = sqlx::query_scalar(AssertSqlSafe(InTransaction::new().fence_check()));
    check.bind(name).bind(fence).fetch_one(tx).await.unwrap()
}

async fn waiting(server: &Server, number: usize) {
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    within(PATIENCE, "they wait in the server", async || count(server, waiting) == number).await;
}

async fn nothing_is_locked(server: &Server) {
    within(PATIENCE, "nobody has it", async || advisory(server, true) == 0).await;
    assert_eq!(advisory(server, false), 0);
}

fn terminate_holder(server: &Server) {
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(server.sql(end).unwrap(), "t");
}

fn server_that_detects_late() -> Server {
    let server = Server::start().unwrap();
    server.sql("ALTER SYSTEM SET deadlock_timeout = '6s'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    server
}
