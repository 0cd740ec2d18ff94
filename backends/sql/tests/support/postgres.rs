#[path = "each.rs"]
mod each;

use lockwright_core::Token;

pub(crate) use lockwright_sql::Postgres as Backend;
pub(crate) use lockwright_sql::postgres::{
    Config, InTransaction, check_fence, lock_in_transaction,
};
pub(crate) use lockwright_testbed::Postgres as Server;
use lockwright_testbed::postgres::Options;
pub(crate) use sqlx::postgres::{
    PgConnection as Connection, PgPool as Pool, PgPoolOptions as PoolOptions,
};

pub(crate) use self::each::*;
pub(crate) use sqlx::Postgres as Database;

pub(crate) const SCHEME: &str = "postgres";

pub(crate) const TLS: &str = "sslmode";

/// An hour that SQL can subtract from the column `updated`.
pub(crate) const HOUR: &str = "interval '1 hour'";

/// Returns the fence that all new fences exceed.
pub(crate) fn floor(server: &Server) -> u64 {
    count(server, "SELECT last_value FROM lockwright_hold_fence") as u64
}

pub(crate) fn set_floor(server: &Server, floor: u64) {
    server.sql(&format!("SELECT setval('lockwright_hold_fence', {floor})")).unwrap();
}

pub(crate) fn raise_last_fence(server: &Server, _mode: &str) -> u64 {
    let last = floor(server) + 1_000_000_000_000_000;
    set_floor(server, last);
    last
}

pub(crate) const SESSIONS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE usename = 'lockwright'";

pub(crate) const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity \
                                  WHERE usename = 'lockwright' AND wait_event_type = 'Lock'";

pub(crate) const FULL: [&str; 2] = ["too many clients", "remaining connection slots"];

pub(crate) fn set_isolation(server: &Server, level: &str) {
    let set = format!("ALTER ROLE lockwright SET default_transaction_isolation = '{level}'");
    server.sql(&set).unwrap();
}

pub(crate) fn options() -> Options {
    Server::options()
}

pub(crate) fn wait_for_replica(server: &Server, wait: bool) {
    let name = if wait { "gone" } else { "" };
    server.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
}

pub(crate) async fn lock_table(server: &Server, table: &str) -> Connection {
    session_after(server, &format!("BEGIN; LOCK TABLE {table}")).await
}

pub(crate) fn add_user(server: &Server, user: &str, password: &str) {
    server.sql(&format!("DROP OWNED BY {user}; DROP ROLE {user}")).ok();
    let create = format!(
        "CREATE ROLE {user} LOGIN PASSWORD '{password}'; \
         GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}"
    );
    server.sql(&create).unwrap();
}

/// Counts sessions with the token's lock for the name `x`.
pub(crate) fn sessions_of(server: &Server, token: Token) -> usize {
    count(server, &format!("SELECT count(*) FROM ({}) AS sessions", session_sql(token)))
}

pub(crate) fn session_sql(token: Token) -> String {
    format!(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted \
         AND (classid::bigint << 32) | objid::bigint = {}",
        key(&format!("{token}x"))
    )
}

pub(crate) fn end_session_of(server: &Server, token: Token) {
    server.sql(&format!("SELECT pg_terminate_backend(({}), 1000)", session_sql(token))).unwrap();
}

pub(crate) fn queued(server: &Server) -> usize {
    count(server, "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")
}

pub(crate) fn writing(server: &Server) -> usize {
    queued(server)
}

pub(crate) fn holding(server: &Server) -> usize {
    count(
        server,
        "SELECT count(*) FROM (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
                               UNION SELECT pid FROM pg_stat_activity \
                 WHERE usename = 'lockwright' AND state LIKE 'idle in transaction%') AS holding",
    )
}

/// Returns Lockwright's documented expression for the key of a name's advisory lock.
pub(crate) fn key(name: &str) -> String {
    format!(
        "('x' || substr(encode(sha256(convert_to('{name}', 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint"
    )
}

pub(crate) fn lock(name: &str) -> String {
    format!("SELECT pg_try_advisory_lock({})", key(name))
}

pub(crate) fn unlock(name: &str) -> String {
    format!("SELECT pg_advisory_unlock({})", key(name))
}
