use std::sync::Arc;

use lockwright_core::backend_util::finding;
use lockwright_core::{Finding, Result};

use super::check;
use crate::mysql::dialect::MySql;
use crate::mysql::facts::Facts;
use crate::server::session_lock::Sessions;
use crate::server::{Dialect, Effect, doctor};

pub(super) async fn findings(sessions: &Arc<Sessions<MySql>>) -> Result<Vec<Finding>> {
    const USED: &str = "SHOW GLOBAL STATUS LIKE 'Threads_connected'";

    let pool = &sessions.pool;
    let mut findings = pool.dialect().examine(pool).await?;
    let facts = Facts::look(pool).await?;
    if let Err(error) = facts.can_hold(pool.dialect().backend()) {
        findings.push(finding::error(
            "sessions-of-one-primary",
            error.to_string(),
            "two servers may grant the same lock to two clients",
            "use the mode lease, with all clients on one of them",
        ));
    }
    // Behind a proxy, no test session is opened, because ending it could end another client's
    // session.
    if let Err(error) = check(sessions).await {
        findings.push(doctor::shared_sessions(&error));
    } else if let Err(error) = sessions.try_open().await {
        let fix = "let the user set wait_timeout, and leave connections free";
        findings.push(doctor::no_session(&error, fix));
    }
    let rows = pool.fetch_text(USED.to_owned(), Effect::Reads).await?;
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let used = number(rows.first().and_then(|row| row.text(1).ok()).flatten());
    if let (Some(used), Some(most)) = (used, number(facts.text("max_connections"))) {
        findings.extend(doctor::few_connections(most - used));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}
