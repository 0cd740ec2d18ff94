use std::sync::Arc;

use lockwright_core::Result;
use tokio::time::Instant;

use super::connection::PgSession;
use crate::postgres::dialect::{PROTOCOL_VIOLATION, Postgresql, code};
use crate::server::errors::{not_connected, not_connected_in};
use crate::server::session_lock::{Permit, Session, Sessions};
use crate::server::{Dialect, Row, Use};

/// Opens two connections. Rejects a pooler that runs the second's transaction in the first's
/// session, or moves the first to another session.
pub(crate) async fn check(sessions: &Arc<Sessions<Postgresql>>) -> Result<()> {
    const PROCESS: &str = "SELECT pg_backend_pid()::bigint";

    let pool = &sessions.pool;
    let (dialect, limit) = (pool.dialect(), pool.limits().connect);
    let deadline = Instant::now() + limit;
    let permit = Permit::get(pool, Use::Hold, deadline).await?;
    let mut first = PgSession::connect(sessions, permit).await?;
    let opened = first.id();
    // With the smallest limit on sessions, `first` has the only permit for holds.
    let permit = match Permit::try_get(pool, Use::Hold) {
        Some(permit) => permit,
        None => Permit::get(pool, Use::Listen, deadline).await?,
    };
    let asking = async {
        let process = |rows: Vec<Row>| rows.last()?.int(0).ok();
        let (mut second, _permit) = permit.connect().await?;
        let between = process(dialect.fetch(&mut second, format!("BEGIN; {PROCESS}")).await?);
        let again = process(first.run(PROCESS.to_owned()).await?);
        sqlx::Result::Ok(between != Some(opened) && again == Some(opened))
    };
    let answer = tokio::time::timeout(limit, asking).await;
    PgSession::close(first).await;
    match answer {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(sessions.sessions_are_shared()),
        // A pooler that switches sessions after each statement rejects the transaction.
        Ok(Err(cause)) if code(&cause).as_deref() == Some(PROTOCOL_VIOLATION) => {
            Err(sessions.sessions_are_shared().with_source(cause))
        }
        Ok(Err(cause)) => Err(not_connected(&cause, dialect)),
        Err(_) => Err(not_connected_in(limit, dialect.backend())),
    }
}
