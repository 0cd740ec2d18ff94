use lockwright_core::{Error, Finding, Result, Severity};
use tokio::time::Instant;

use super::Sessions;
use super::session::MySqlSession;
use crate::mysql::facts::Facts;
use crate::server::dialect::Dialect;
use crate::server::errors::Effect;
use crate::server::session_lock::Session;

pub(super) async fn findings(sessions: &Sessions) -> Result<Vec<Finding>> {
    let pool = &sessions.records.pool;
    let mut findings = pool.dialect().examine(pool).await?;
    let facts = Facts::look(pool).await?;
    if let Err(error) = facts.can_hold(pool.dialect().backend()) {
        findings.push(several_primaries(&error));
    }
    // Behind a proxy, no test session is opened, because ending it could end another client's
    // session.
    if let Err(error) = sessions.check().await {
        findings.push(shared_sessions(&error));
    } else if let Err(error) = open(sessions).await {
        findings.push(no_session(&error));
    }
    findings.extend(connections(sessions, &facts).await?);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

async fn open(sessions: &Sessions) -> Result<()> {
    let deadline = Instant::now() + sessions.records.pool.limits().connect;
    let session = sessions.open(sessions.records.permit(deadline).await?).await?;
    MySqlSession::close(session).await;
    Ok(())
}

fn several_primaries(error: &Error) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "sessions-of-one-primary",
        what: error.to_string(),
        why: "two servers may grant the same lock to two clients".to_owned(),
        fix: "use the mode lease, with all clients on one of them".to_owned(),
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
        fix: "let the user set wait_timeout, and leave connections free".to_owned(),
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

async fn connections(sessions: &Sessions, facts: &Facts) -> Result<Option<Finding>> {
    const FEW: i64 = 20;
    const USED: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";

    let rows = sessions.records.pool.fetch_text(USED.to_owned(), Effect::Reads).await?;
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let used = number(rows.first().and_then(|row| row.text(1).ok()).flatten());
    let (Some(used), Some(most)) = (used, number(facts.text("max_connections"))) else {
        return Ok(None);
    };
    let free = most - used;
    Ok((free < FEW).then(|| Finding {
        severity: Severity::Warning,
        code: "few-connections",
        what: format!("the server has room for {free} more connections"),
        why: "holds take them, and so does each name that a process waits for".to_owned(),
        fix: "raise max_connections, or use the mode lease".to_owned(),
    }))
}
