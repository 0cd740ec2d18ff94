use lockwright_testbed::{MariaDb, Postgres};
use tempfile::TempDir;

use super::interface::{Result, Servers};

/// The server's connection limit, enough for a thousand waiters.
const CONNECTIONS: &str = "1200";

pub(super) fn sqlite() -> Result<Box<dyn Servers>> {
    let folder = TempDir::new().map_err(|error| format!("a temporary folder: {error}"))?;
    Ok(Box::new(Sqlite(folder)))
}

pub(super) fn postgres(mode: &'static str) -> Result<Box<dyn Servers>> {
    let options = Postgres::options().durable().set("max_connections", CONNECTIONS);
    let options = options.set("shared_buffers", "128MB").set("max_wal_size", "1GB");
    let server = options.set("shared_preload_libraries", "pg_stat_statements").start()?;
    server.sql("CREATE EXTENSION pg_stat_statements")?;
    Ok(Box::new(OfPostgres { server, mode }))
}

pub(super) fn mysql(mode: &'static str) -> Result<Box<dyn Servers>> {
    let options = MariaDb::options().durable().set("max_connections", CONNECTIONS);
    let options = options.set("innodb_buffer_pool_size", "128M").set("innodb_log_file_size", "96M");
    let server = options.set("innodb_use_native_aio", "1").start()?;
    Ok(Box::new(OfMysql { server, mode }))
}

#[derive(Debug)]
struct Sqlite(TempDir);

#[derive(Debug)]
struct OfPostgres {
    server: Postgres,
    mode: &'static str,
}

#[derive(Debug)]
struct OfMysql {
    server: MariaDb,
    mode: &'static str,
}

impl Servers for Sqlite {
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.path().join("locks.db").display())
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.url()]
    }

    fn served(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn version(&self) -> Result<(String, String)> {
        Ok(("SQLite".to_owned(), "as the client library brings it".to_owned()))
    }
}

impl Servers for OfPostgres {
    fn url(&self) -> String {
        format!("{}?mode={}", self.server.url(), self.mode)
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.server.url()]
    }

    fn served(&self) -> Result<Option<u64>> {
        let calls = self.server.sql("SELECT sum(calls) FROM pg_stat_statements")?;
        number(&calls).map(Some)
    }

    fn version(&self) -> Result<(String, String)> {
        Ok(("PostgreSQL".to_owned(), self.server.sql("SHOW server_version")?))
    }
}

impl Servers for OfMysql {
    fn url(&self) -> String {
        format!("{}?mode={}", self.server.url(), self.mode)
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.server.url()]
    }

    fn served(&self) -> Result<Option<u64>> {
        let questions = self.server.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        number(questions.split_whitespace().last().unwrap_or_default()).map(Some)
    }

    fn version(&self) -> Result<(String, String)> {
        Ok(("MariaDB".to_owned(), self.server.sql("SELECT VERSION()")?))
    }
}

fn number(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| format!("not a number: {text:?}").into())
}
