//! Helpers compiled once per server. The parent module defines `Server`, `Backend` and similar
//! names.

pub(crate) use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::{BLOCKED, Backend, Config, Connection, Options, SCHEME, SESSIONS, Server, add_user};
use crate::support::*;

/// Connects with long time limits, for busy machines.
pub(crate) async fn connect(url: &str) -> Backend {
    patient(url).connect().await.unwrap()
}

pub(crate) fn patient(url: &str) -> Config {
    Config::new(url).unwrap().response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn start() -> (Server, Arc<Backend>) {
    let server = Server::start().unwrap();
    let backend = Arc::new(connect(&server.url()).await);
    (server, backend)
}

pub(crate) fn plain() -> Server {
    Server::start().unwrap()
}

/// Connects with the default time limits.
pub(crate) async fn backend(server: &Server, mode: &str) -> Backend {
    backend_through(server, server.port(), mode).await
}

pub(crate) async fn shared(server: &Server, mode: &str) -> Arc<Backend> {
    Arc::new(backend(server, mode).await)
}

pub(crate) async fn backend_through(server: &Server, port: u16, mode: &str) -> Backend {
    Backend::connect(&in_mode(&server.url_through(port), mode)).await.unwrap()
}

pub(crate) async fn client(server: &Server, mode: &str, ttl: Duration) -> Locks {
    locks(&in_mode(&server.url(), mode), ttl).await
}

pub(crate) async fn client_through(server: &Server, port: u16, mode: &str, ttl: Duration) -> Locks {
    locks(&in_mode(&server.url_through(port), mode), ttl).await
}

pub(crate) async fn locks(url: &str, ttl: Duration) -> Locks {
    let backend = Backend::connect(url).await.unwrap();
    Locks::builder(backend).ttl(ttl).wait(Some(LIMIT)).build().unwrap()
}

pub(crate) async fn session(server: &Server) -> Connection {
    Connection::connect(&server.admin_url()).await.unwrap()
}

pub(crate) async fn session_after(server: &Server, sql: &str) -> Connection {
    let mut session = session(server).await;
    run(&mut session, sql).await;
    session
}

pub(crate) async fn run(session: &mut Connection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(session).await.unwrap();
}

pub(crate) async fn lock_row(server: &Server, table: &str, condition: &str) -> Connection {
    let mut session = session_after(server, "BEGIN").await;
    let lock = format!("SELECT name FROM {table} WHERE {condition} FOR UPDATE");
    let rows = sqlx::raw_sql(AssertSqlSafe(lock)).fetch_all(&mut session).await.unwrap();
    assert_eq!(rows.len(), 1, "{condition} has a row");
    session
}

pub(crate) async fn lock_lease(server: &Server, name: &str) -> Connection {
    lock_row(server, "lockwright_lease", &format!("name = '{name}'")).await
}

pub(crate) fn count(server: &Server, sql: &str) -> usize {
    server.sql(sql).unwrap().trim().parse().unwrap()
}

pub(crate) fn sessions(server: &Server) -> usize {
    count(server, SESSIONS)
}

pub(crate) async fn wait_for_blocked(server: &Server, number: usize) {
    eventually(|| async { (count(server, BLOCKED) == number).then_some(()) }).await;
}

pub(crate) fn with_application(options: Options) -> Server {
    let server = options.start().unwrap();
    add_user(&server, "application", "application");
    server
}

/// Asserts that an application can connect soon. A busy server may still count ended sessions.
pub(crate) async fn application_connects(server: &Server) {
    let url = format!("{SCHEME}://application:application@{}/lockwright", server.address());
    within(ms(3_000), "a connection of an application", async || {
        timeout(ms(10_000), Connection::connect(&url)).await.is_ok_and(|it| it.is_ok())
    })
    .await;
}
