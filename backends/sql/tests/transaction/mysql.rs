#[path = "fence.rs"]
mod fence;
#[path = "lock.rs"]
mod lock;
mod refusals;
mod rows;
#[path = "shop.rs"]
mod shop;
#[path = "waiting.rs"]
mod waiting;

use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::time::sleep;

use self::server::{Connection, InTransaction, Server, count};
use crate::expect::PATIENCE;
use crate::support::{ms, mysql as server, within};

const CREATE_SCHEMA: &str = "CREATE DATABASE app; GRANT ALL ON app.* TO lockwright@'%'";

/// The tables whose rows belong to names, each with its column for the last use.
const TABLES: [(&str, &str); 2] = [("fence", "updated"), ("turn", "used")];

/// Statements that begin a transaction. Without autocommit, each statement begins one if none is
/// open.
const BEGIN: [&str; 2] = ["BEGIN", "SET autocommit = 0"];

/// Statements that set a session's isolation level. The first level is the default.
const SET_LEVEL: &[&str] = &[
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];

/// SQL that sets a short time limit for locks, and words of the resulting error.
const SHORT_LIMIT: (&str, &str) = ("SET SESSION innodb_lock_wait_timeout = 1", "holds this name");

const DEFAULT_LIMIT: &str = "50";
const SESSION_LIMIT: (&str, &str) = ("SET SESSION innodb_lock_wait_timeout = 11", "11");
const LOCAL_LIMIT: (&str, &str) = SESSION_LIMIT;

async fn limit(connection: &mut Connection) -> String {
    let limit = connection.fetch_one("SELECT @@SESSION.innodb_lock_wait_timeout").await.unwrap();
    limit.get::<u64, _>(0).to_string()
}

const LOCKS: &str = "SELECT count(*) FROM lockwright_turn";

async fn fence_by_sql(tx: &mut Connection, name: &str, fence: i64) -> i64 {
    let [record, read] = InTransaction::new().fence_check().map(AssertSqlSafe);
    let record = sqlx::query(record).bind(name).bind(fence).bind(fence).bind(fence);
    record.execute(&mut *tx).await.unwrap();
    sqlx::query_scalar(read).bind(name).fetch_one(tx).await.unwrap()
}

async fn waiting(server: &Server, number: usize) {
    let waiting =
        "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    within(PATIENCE, "they wait in the server", async || {
        // The server refreshes this view only if no client has read it for 100 ms.
        sleep(ms(150)).await;
        count(server, waiting) == number
    })
    .await;
}

async fn nothing_is_locked(server: &Server) {
    waiting(server, 0).await;
}

fn terminate_holder(server: &Server) {
    let id = "SELECT MAX(trx_mysql_thread_id) FROM information_schema.innodb_trx";
    server.sql(&format!("KILL {}", server.sql(id).unwrap())).unwrap();
}

fn server_that_detects_late() -> Server {
    let options = Server::options().set("innodb_deadlock_detect", "OFF");
    options.set("innodb_lock_wait_timeout", "6").start().unwrap()
}
