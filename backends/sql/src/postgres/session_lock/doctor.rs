use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockwright_core::backend_util::finding;
use lockwright_core::{Finding, Result};

use super::check;
use crate::postgres::dialect::Postgresql;
use crate::server::session_lock::Sessions;
use crate::server::{Dialect, Effect, doctor};

pub(super) async fn findings(sessions: &Arc<Sessions<Postgresql>>) -> Result<Vec<Finding>> {
    let pool = &sessions.pool;
    let mut findings = pool.dialect().examine(pool).await?;
    if let Err(error) = sessions.try_open().await {
        let fix = "let the user set idle_session_timeout and idle_in_transaction_session_timeout, \
                   and leave connections free";
        findings.push(doctor::no_session(&error, fix));
    } else if !sessions.own.load(Ordering::Relaxed) {
        findings.push(finding::warning(
            "client-connection-check",
            "the server refuses client_connection_check_interval",
            "a killed waiter stays in the server's queue until its slice is over, and later \
             waiters wait for it",
            "run the server on a system that can look for closed connections, such as Linux",
        ));
    }
    if let Err(error) = check(sessions).await {
        findings.push(doctor::shared_sessions(&error));
    }
    let rows = pool.fetch_text(FREE.to_owned(), Effect::Reads).await?;
    let free = rows.first().and_then(|row| row.int(0).ok()).unwrap_or(i64::MAX);
    findings.extend(doctor::few_connections(free));
    Ok(findings)
}

const FREE: &str = "SELECT current_setting('max_connections')::bigint \
                    - current_setting('superuser_reserved_connections')::bigint \
                    - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
