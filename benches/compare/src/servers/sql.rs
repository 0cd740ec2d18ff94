use lockwright_testbed::{MariaDb, Postgres};
use tempfile::TempDir;

use super::{Counts, Result, Servers};

/// A thousand waiters, and some other connections.
const CONNECTIONS: &str = "1200";

pub(super) fn sqlite() -> Result<Servers> {
    let folder = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let version = ("SQLite", "as the client library brings it".to_owned());
    Ok(Servers::new(url.clone(), vec![url], version, folder))
}

pub(super) fn postgres(mode: &str) -> Result<Servers> {
    let options = Postgres::options().durable().set("max_connections", CONNECTIONS);
    let options = options.set("shared_buffers", "128MB").set("max_wal_size", "1GB");
    let server = options.set("shared_preload_libraries", "pg_stat_statements").start()?;
    server.sql("CREATE EXTENSION pg_stat_statements")?;
    let version = ("PostgreSQL", server.sql("SHOW server_version")?);
    let url = format!("{}?mode={mode}", server.url());
    Ok(Servers::new(url, vec![server.url()], version, server))
}

pub(super) fn mysql(mode: &str) -> Result<Servers> {
    let options = MariaDb::options().durable().set("max_connections", CONNECTIONS);
    let options = options.set("innodb_buffer_pool_size", "128M").set("innodb_log_file_size", "96M");
    let server = options.set("innodb_use_native_aio", "1").start()?;
    let version = ("MariaDB", server.sql("SELECT VERSION()")?);
    let url = format!("{}?mode={mode}", server.url());
    Ok(Servers::new(url, vec![server.url()], version, server))
}

impl Counts for TempDir {}

impl Counts for Postgres {
    fn served(&self) -> Result<Option<u64>> {
        let calls = self.sql("SELECT sum(calls) FROM pg_stat_statements")?;
        number(&calls).map(Some)
    }
}

impl Counts for MariaDb {
    fn served(&self) -> Result<Option<u64>> {
        let questions = self.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        number(questions.split_whitespace().last().unwrap_or_default()).map(Some)
    }
}

fn number(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| format!("not a number: {text:?}").into())
}
