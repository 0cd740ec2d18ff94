use lockwright_core::Result;
use tokio::time::Instant;

use super::connection::PgSession;
use crate::postgres::dialect::Postgresql;
use crate::server::dialect::Dialect;
use crate::server::errors::{not_connected, not_connected_in};
use crate::server::session_limit::Use;
use crate::server::session_lock::{Permit, Session, Sessions};

/// Rejects a pooler that shares sessions. Such a pooler lets a transaction on a second connection
/// use the first connection's session, or switches the first connection to another session.
pub(crate) async fn check(sessions: &Sessions<Postgresql>) -> Result<()> {
    let (common, pool) = (&sessions.common, &sessions.common.pool);
    let (dialect, limit) = (pool.dialect(), pool.limits().connect);
    let deadline = Instant::now() + limit;
    let permit = Permit::get(pool, Use::Hold, deadline).await?;
    let mut first = PgSession::connect(common, permit).await?;
    let opened = first.id();
    // With the smallest limit on sessions, `first` has the only permit for holds. Then the second
    // connection uses the listener's permit.
    let _permit = match Permit::try_get(pool, Use::Hold) {
        Some(permit) => permit,
        None => Permit::get(pool, Use::Listen, deadline).await?,
    };
    let asking = async {
        let mut second = dialect.connect().await?;
        let rows = dialect.fetch(&mut second, format!("BEGIN; {PROCESS}")).await?;
        let between = process(&rows);
        let again = process(&first.run(PROCESS.to_owned()).await?);
        sqlx::Result::Ok(between != Some(opened) && again == Some(opened))
    };
    let answer = tokio::time::timeout(limit, asking).await;
    PgSession::close(first).await;
    match answer {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(common.sessions_are_shared()),
        // A pooler that switches sessions after each statement rejects the transaction.
        Ok(Err(cause)) if is_protocol_violation(&cause) => {
            Err(common.sessions_are_shared().with_source(cause))
        }
        Ok(Err(cause)) => Err(not_connected(cause, dialect).error),
        Err(_) => Err(not_connected_in(limit, dialect.backend()).error),
    }
}

fn is_protocol_violation(cause: &sqlx::Error) -> bool {
    cause.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "08P01")
}

const PROCESS: &str = "SELECT pg_backend_pid()::bigint";

fn process(rows: &[crate::server::dialect::Row]) -> Option<i64> {
    rows.last()?.int(0).ok()
}
