use lockwright_core::Result;

use super::dialect::{MySql, fetch_on};
use crate::server::errors::not_connected;
use crate::server::{Pool, Row};

/// Returns whether a proxy uses the first connection's session for a transaction on the second, or
/// switches the first to another session. Also returns true if a proxy answers [`SESSION`] with its
/// own number, like ProxySQL, and so would `KILL` its own connections. Returns `None` after a
/// timeout, as behind a proxy with a single session.
pub(super) async fn shares_sessions(pool: &Pool<MySql>) -> Result<Option<bool>> {
    let dialect = pool.dialect();
    let limit = pool.limits().connect;
    let asking = async {
        let mut first = dialect.connect().await?;
        let before = session(&fetch_on(&mut first, SESSION.to_owned()).await?);
        let server = session(&fetch_on(&mut first, format!("{SESSION} + 0")).await?);
        let mut second = dialect.connect().await?;
        let rows = fetch_on(&mut second, format!("BEGIN; {SESSION}")).await?;
        let between = session(&rows);
        let after = session(&fetch_on(&mut first, SESSION.to_owned()).await?);
        let is_shared = between == before || after != before || server != before;
        sqlx::Result::Ok(before.is_none() || is_shared)
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(answer) => answer.map(Some).map_err(|cause| not_connected(&cause, dialect)),
        Err(_) => Ok(None),
    }
}

const SESSION: &str = "SELECT CONNECTION_ID()";

fn session(rows: &[Row]) -> Option<i64> {
    rows.last()?.int(0).ok()
}
