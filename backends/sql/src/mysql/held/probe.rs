//! Whether a session is a session all the way to the server.

use lockwright_core::{Error, ErrorKind, Result};

use super::Sessions;
use super::session::MySqlSession;
use crate::mysql::dialect::fetch_on;
use crate::server::dialect::{Dialect, Row};
use crate::server::errors::{not_connected, not_connected_in};
use crate::server::held::Session;

/// Refuses what gives one session of the server to several connections in turn.
///
/// While a second connection is in a transaction, a proxy that does either answers it with the first
/// one's session, or answers the first one with another than before.
pub(super) async fn check(sessions: &Sessions) -> Result<()> {
    let dialect = sessions.rows.pool.dialect();
    let mut first = sessions.open().await?;
    let opened = first.id();
    let limit = sessions.rows.pool.limits().connect;
    let asking = async {
        let mut second = dialect.connect().await?;
        let rows = fetch_on(&mut second, format!("BEGIN; {CONNECTION}")).await?;
        let between = connection(&rows);
        let again = connection(&first.run(CONNECTION.to_owned()).await?);
        sqlx::Result::Ok(between != Some(opened) && again == Some(opened))
    };
    let answer = tokio::time::timeout(limit, asking).await;
    MySqlSession::close(first).await;
    match answer {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(Error::new(
            ErrorKind::Unsupported,
            "a proxy gives one session of the server to several connections in turn, so nothing \
             that is locked in one stays with it; connect to the server itself, or use the mode \
             lease",
        )
        .with_backend(dialect.backend())),
        Ok(Err(cause)) => Err(not_connected(cause, dialect).error),
        Err(_) => Err(not_connected_in(limit, dialect.backend()).error),
    }
}

const CONNECTION: &str = "SELECT CONNECTION_ID()";

fn connection(rows: &[Row]) -> Option<i64> {
    rows.last()?.int(0).ok()
}
