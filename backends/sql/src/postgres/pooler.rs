//! What answers there: a server, a replica, a pooler in between.

use lockwright_core::{Error, ErrorKind, Result};

use super::dialect::Postgresql;
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::{Effect, bad_row, not_connected, not_connected_in};
use crate::server::pool::Pool;

/// The oldest server that the texts are written for: 12 was the last to lack nothing of them.
const OLDEST: i64 = 120_000;

/// What a server says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) is_replica: bool,
    pub(super) version: i64,
    /// Which of its processes answered.
    process: i64,
}

impl Server {
    pub(super) async fn look(pool: &Pool<Postgresql>) -> Result<Self> {
        let rows = pool.fetch_text(LOOK.to_owned(), Effect::Reads).await?;
        Self::of(&rows).map_err(|bad| bad_row(bad, pool.dialect().backend()))
    }

    fn of(rows: &[Row]) -> Result<Self, BadRow> {
        let row = rows.first().ok_or(BadRow)?;
        Ok(Self { is_replica: row.bool(0)?, version: row.int(1)?, process: row.int(2)? })
    }

    /// Whether locks can be kept here at all.
    pub(super) fn can_lock(&self, backend: &'static str) -> Result<()> {
        let problem = if self.is_replica {
            "this server is a replica, which can't lock; connect to its primary".to_owned()
        } else if self.version < OLDEST {
            format!(
                "this server is PostgreSQL {}, and at least {} is needed",
                self.version / 10_000,
                OLDEST / 10_000
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, problem).with_backend(backend))
    }

    /// Whether a pooler gives one connection of the server to several of ours: then nothing stays
    /// with a session, neither its locks nor what it listens to.
    ///
    /// The one that was looked through is idle now. If a second one is answered by the same process
    /// of the server, there is no doubt. If not, there may still be a pooler that is busy.
    pub(super) async fn is_shared(&self, pool: &Pool<Postgresql>) -> Result<bool> {
        let dialect = pool.dialect();
        let asking = async {
            let mut second = dialect.connect().await?;
            dialect.fetch(&mut second, LOOK.to_owned()).await
        };
        let limit = pool.limits().connect;
        match tokio::time::timeout(limit, asking).await {
            Ok(Ok(rows)) => {
                let second = Self::of(&rows).map_err(|bad| bad_row(bad, dialect.backend()))?;
                Ok(second.process == self.process)
            }
            Ok(Err(cause)) => Err(not_connected(cause, dialect).error),
            Err(_) => Err(not_connected_in(limit, dialect.backend()).error),
        }
    }
}

const LOOK: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::bigint, \
                    pg_backend_pid()::bigint";
