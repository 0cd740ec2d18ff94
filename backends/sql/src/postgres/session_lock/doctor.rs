use std::sync::atomic::Ordering;

use lockwright_core::{Error, Finding, Result, Severity};
use tokio::time::Instant;

use super::Sessions;
use super::session::PgSession;
use crate::server::dialect::Dialect;
use crate::server::session_lock::Session;

pub(super) async fn findings(sessions: &Sessions) -> Result<Vec<Finding>> {
    let pool = &sessions.records.pool;
    let mut findings = pool.dialect().examine(pool).await?;
    let deadline = Instant::now() + pool.limits().connect;
    let opened = match sessions.records.permit(deadline).await {
        Ok(permit) => sessions.open(permit).await,
        Err(error) => Err(error),
    };
    match opened {
        Ok(session) => {
            PgSession::close(session).await;
            if !sessions.checks_clients.load(Ordering::Relaxed) {
                findings.push(unseen_clients());
            }
        }
        Err(error) => findings.push(no_session(&error)),
    }
    if let Err(error) = sessions.check().await {
        findings.push(shared_sessions(&error));
    }
    findings.extend(connections(sessions).await?);
    Ok(findings)
}

fn unseen_clients() -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "client-connection-check",
        what: "the server refuses client_connection_check_interval".to_owned(),
        why: "a killed waiter stays in the server's queue until its slice is over, and later \
              waiters wait for it"
            .to_owned(),
        fix: "run the server on a system that can look for closed connections, such as Linux"
            .to_owned(),
    }
}

fn no_session(error: &Error) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "no-session",
        what: format!("can't open a connection for a hold: {error}"),
        why: "a hold needs a connection, which the server ends when it is idle for \
              longer than the TTL"
            .to_owned(),
        fix: "let the user set idle_session_timeout and idle_in_transaction_session_timeout, and \
              leave connections free"
            .to_owned(),
    }
}

fn shared_sessions(error: &Error) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "shared-sessions",
        what: error.to_string(),
        why: "a session's locks must stay with one connection".to_owned(),
        fix: "connect to the server itself, or use the mode lease".to_owned(),
    }
}

async fn connections(sessions: &Sessions) -> Result<Option<Finding>> {
    use crate::server::errors::Effect;

    const FEW: i64 = 20;
    let rows = sessions.records.pool.fetch_text(FREE.to_owned(), Effect::Reads).await?;
    let free = rows.first().and_then(|row| row.int(0).ok()).unwrap_or(i64::MAX);
    Ok((free < FEW).then(|| Finding {
        severity: Severity::Warning,
        code: "few-connections",
        what: format!("the server has room for {free} more connections"),
        why: "holds take them, and so does each name that a process waits for".to_owned(),
        fix: "raise max_connections, or use the mode lease".to_owned(),
    }))
}

const FREE: &str = "SELECT current_setting('max_connections')::bigint \
                    - current_setting('superuser_reserved_connections')::bigint \
                    - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
