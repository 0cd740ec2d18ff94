#[path = "each.rs"]
mod each;

use lockwright_core::Token;

pub(crate) use lockwright_sql::Mysql as Backend;
pub(crate) use lockwright_sql::mysql::{Config, InTransaction, check_fence, lock_in_transaction};
pub(crate) use lockwright_testbed::MariaDb as Server;
use lockwright_testbed::mariadb::Options;
pub(crate) use sqlx::mysql::{
    MySqlConnection as Connection, MySqlPool as Pool, MySqlPoolOptions as PoolOptions,
};

pub(crate) use self::each::*;
pub(crate) use sqlx::MySql as Database;

pub(crate) const SCHEME: &str = "mysql";

pub(crate) const TLS: &str = "ssl-mode";

/// An hour in the unit of the column `updated`.
pub(crate) const HOUR: &str = "3600000000";

/// Returns the fence that all new fences exceed.
pub(crate) fn floor(server: &Server) -> u64 {
    count(server, "SELECT floor FROM lockwright_meta") as u64
}

pub(crate) fn set_floor(server: &Server, floor: u64) {
    server.sql(&format!("UPDATE lockwright_meta SET floor = {floor}")).unwrap();
    raise_sequence(server, floor);
}

fn raise_sequence(server: &Server, last: u64) {
    if count(server, "SELECT VERSION() LIKE '%MariaDB%'") == 1 {
        // SETVAL can't lower the sequence. ALTER can, but waits for all holds of the mode `row`.
        let set = format!("SELECT SETVAL(lockwright_hold_fence, {last})");
        if server.sql(&set).unwrap().trim() == "NULL" {
            let restart = format!("ALTER SEQUENCE lockwright_hold_fence RESTART {}", last + 1);
            server.sql(&restart).unwrap();
        }
    }
}

/// Raises the last fence far above the server's time, and returns this fence.
pub(crate) fn raise_last_fence(server: &Server, mode: &str) -> u64 {
    server.sql("UPDATE lockwright_hold SET fence = fence + 1000000000000000").unwrap();
    let last = format!(
        "SELECT COALESCE(MAX(fence), FLOOR(UNIX_TIMESTAMP() * 1e6) + 1000000000000000) \
         FROM lockwright_hold WHERE kind = '{mode}'"
    );
    let last = count(server, &last) as u64;
    raise_sequence(server, last);
    last
}

pub(crate) const SESSIONS: &str =
    "SELECT count(*) FROM information_schema.processlist WHERE user = 'lockwright'";

pub(crate) const BLOCKED: &str = "SELECT count(*) FROM information_schema.processlist \
                                  WHERE user = 'lockwright' AND command IN ('Query', 'Execute')";

pub(crate) const FULL: [&str; 1] = ["Too many connections"];

pub(crate) fn set_isolation(server: &Server, level: &str) {
    server.sql(&format!("SET GLOBAL tx_isolation = '{level}'")).unwrap();
}

pub(crate) fn options() -> Options {
    Server::options().semi_synchronous()
}

/// Sets whether commits wait for a replica that doesn't exist.
pub(crate) fn wait_for_replica(server: &Server, wait: bool) {
    server.wait_for_replica(wait).unwrap();
}

pub(crate) async fn lock_table(server: &Server, table: &str) -> Connection {
    session_after(server, &format!("LOCK TABLES {table} WRITE")).await
}

pub(crate) fn add_user(server: &Server, user: &str, password: &str) {
    server.sql(&format!("DROP USER IF EXISTS {user}@'%'")).unwrap();
    server.add_user(user, password).unwrap();
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON lockwright.*";
    server.sql(&format!("{grant} TO {user}@'%'")).unwrap();
}

/// Counts sessions with the token's mark for the name `x`.
pub(crate) fn sessions_of(server: &Server, token: Token) -> usize {
    count(server, &format!("SELECT {} IS NOT NULL", session_of(token)))
}

fn session_of(token: Token) -> String {
    format!("IS_USED_LOCK({})", mark(token))
}

pub(crate) fn mark(token: Token) -> String {
    format!("CONCAT(' lockwright/{token}/', LEFT(SHA2('x', 256), 16))")
}

pub(crate) fn end_session_of(server: &Server, token: Token) {
    server.sql(&format!("KILL {}", session_of(token))).unwrap();
}

/// Counts sessions that wait for a lock, by the process list, because InnoDB doesn't refresh
/// `innodb_trx` while a client reads it continuously.
pub(crate) fn queued(server: &Server) -> usize {
    running(server, "state = 'User lock' OR info LIKE 'SELECT name %FROM % FOR UPDATE'")
}

pub(crate) fn writing(server: &Server) -> usize {
    running(server, "info LIKE 'INSERT INTO `lockwright_hold`%'")
}

fn running(server: &Server, what: &str) -> usize {
    count(server, &format!("{BLOCKED} AND ({what})"))
}

/// Counts locked names: `x` locked by `GET_LOCK`, and locked rows.
pub(crate) fn holding(server: &Server) -> usize {
    let rows = "SELECT count(*) FROM lockwright_row";
    count(server, "SELECT IS_USED_LOCK('x') IS NOT NULL")
        + count(server, rows)
            .saturating_sub(count(server, &format!("{rows} FOR UPDATE SKIP LOCKED")))
}

/// Returns Lockwright's documented argument of `GET_LOCK` for a name.
pub(crate) fn key(name: &str) -> String {
    let as_it_is =
        name.len() <= 64 && name.chars().all(|c| c.is_ascii() && !c.is_ascii_uppercase());
    let quoted = name.replace('\\', "\\\\");
    if as_it_is { format!("'{quoted}'") } else { format!("SHA2('{quoted}', 256)") }
}

/// Returns the SQL by which another program locks a name in a session without a wait.
pub(crate) fn lock(name: &str) -> String {
    format!("SELECT GET_LOCK({}, 0) = 1", key(name))
}

pub(crate) fn unlock(name: &str) -> String {
    format!("SELECT RELEASE_LOCK({}) = 1", key(name))
}
