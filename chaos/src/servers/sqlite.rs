use std::path::{Path, PathBuf};

use lockwright_testbed::Proxy;
use sqlx::SqliteConnection;

use super::sql::Session;
use super::{Lock, Locking, Result, Server, Servers, make_tables};

pub(super) struct File(PathBuf);

impl File {
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let this = Self(folder.join("locks.db"));
        make_tables(&this.url())?;
        Ok(this)
    }

    fn session(&self) -> Result<Session<SqliteConnection>> {
        Session::open(&self.url())
    }
}

impl Locking for Session<SqliteConnection> {
    /// Returns 0: SQLite doesn't report which connections wait.
    fn waiting(&mut self) -> usize {
        0
    }
}

impl Servers for File {
    fn url(&self) -> String {
        format!("sqlite:{}", self.0.display())
    }

    fn proxies(&self) -> Vec<&Proxy> {
        Vec::new()
    }

    fn servers(&mut self) -> Vec<&mut dyn Server> {
        Vec::new()
    }

    fn lock(&mut self, _: Lock<'_>) -> Result<Box<dyn Locking>> {
        let mut session = self.session()?;
        session.run("BEGIN IMMEDIATE")?;
        Ok(Box::new(session))
    }

    fn leaks(&mut self, prefix: &str) -> Result<Vec<String>> {
        let mut session = self.session()?;
        let now = lockwright::Clock::boot().now().as_nanos();
        let mut leaks = Vec::new();
        // Writers' rows aren't leaks: they expire 3 s after a waiter's last poll.
        for (table, and) in [("lease", ""), ("shared_holder", "AND mode <> 'exclusive'")] {
            let left = session.number(&format!(
                "SELECT count(*) FROM lockwright_{table} \
                 WHERE name LIKE '{prefix}%' AND expires_ns > {now} {and}"
            ))?;
            if left > 0 {
                leaks.push(format!("{left} rows of {table}"));
            }
        }
        Ok(leaks)
    }
}
