//! What answers there: a server, a replica, a pooler in between.
//!
//! A pooler must be noticed before anything is left in a session: a `LISTEN` would stay with a
//! connection of the server that others use, and their drivers may choke on what it brings. So each
//! connection is opened with a mark, a setting of its session that no pooler passes on: one refuses
//! it, others leave it out, and one that keeps sessions for the next client has another's mark.

use lockwright_core::{Error, ErrorKind, Result};

use super::dialect::Postgresql;
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;

/// The oldest server that the texts are written for.
const OLDEST: i64 = 120_000;

/// What a server says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) is_replica: bool,
    pub(super) version: i64,
    /// Whether every name can be stored, and compared as its bytes.
    is_utf8: bool,
    /// Whether nothing stands between it and us.
    pub(super) is_direct: bool,
}

impl Server {
    pub(super) async fn look(pool: &Pool<Postgresql>) -> Result<Self> {
        let rows = pool.fetch_text(look(), Effect::Reads).await?;
        let read = |row: &Row| {
            Ok(Self {
                is_replica: row.bool(0)?,
                version: row.int(1)?,
                is_utf8: row.bool(2)?,
                is_direct: pool.dialect().has_mark(row.text(3)?),
            })
        };
        let read = rows.first().ok_or(BadRow).and_then(read);
        read.map_err(|bad| bad_row(bad, pool.dialect().backend()))
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
        } else if !self.is_utf8 {
            "the database isn't in UTF-8, so that it can't store every name; keep the locks in \
             another one: CREATE DATABASE locks ENCODING 'UTF8' TEMPLATE template0"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Unsupported, problem).with_backend(backend))
    }
}

fn look() -> String {
    format!(
        "SELECT pg_is_in_recovery(), current_setting('server_version_num')::bigint, \
         current_setting('server_encoding') = 'UTF8', {}",
        super::dialect::MARK
    )
}
