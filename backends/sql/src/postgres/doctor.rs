use std::sync::Arc;
use std::time::SystemTime;

use lockwright_core::{Finding, Result};
use sqlx::postgres::PgSslMode;

use super::dialect::Postgresql;
use super::{listener, pooler};
use crate::server::{BadRow, Dialect, Effect, Pool, Row, Sql, doctor, schema};
use lockwright_core::backend_util::finding;

const OLDEST_MAINTAINED: i64 = 140_000;

/// In transactions, and in seconds.
const OLD_SNAPSHOT: (i64, i64) = (10_000, 60);

pub(super) async fn examine(pool: &Arc<Pool<Postgresql>>) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    let sql = Sql::new(&dialect.expand(include_str!("queries/examine.sql")));
    let asked = SystemTime::now();
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    let answered = SystemTime::now();
    let read = rows.first().ok_or(BadRow).and_then(|row| server(row, asked, answered));
    let (is_replica, mut findings) = pool.sound(read)?;
    findings.extend(encryption(pool).await?);
    findings.extend(tables(pool).await?);
    // In the modes `session` and `row`, `session_lock` reports a pooler that shares sessions.
    if !is_replica && dialect.is_for_leases() {
        findings.extend(pooler(pool).await?);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn server(
    row: &Row,
    asked: SystemTime,
    answered: SystemTime,
) -> Result<(bool, Vec<Finding>), BadRow> {
    let mut findings = Vec::new();
    let is_replica = row.bool(0)?;
    if is_replica {
        findings.push(finding::error(
            "replica",
            "the server is a replica",
            "a replica refuses writes, so nothing can be locked on it",
            "connect to its primary",
        ));
    } else if row.bool(1)? {
        findings.push(finding::error(
            "read-only",
            "transactions are read-only by default for this user or database",
            "nothing can be locked",
            "default_transaction_read_only = off for the user that locks",
        ));
    }
    let (fsync, full_page_writes) = (row.bool(3)?, row.bool(4)?);
    if !fsync || !full_page_writes {
        let setting = if fsync { "full_page_writes" } else { "fsync" };
        findings.push(finding::error(
            "fsync",
            format!("{setting} is off"),
            "after a crash of the machine holds and fences may be gone, or the tables damaged",
            format!("{setting} = on"),
        ));
    }
    if row.text(5)? == Some("off") {
        findings.push(finding::warning(
            "synchronous-commit",
            "synchronous_commit is off for this user",
            "a crash of the server frees locks that were granted just before; two clients \
                  may then hold the same lock",
            "ALTER ROLE … SET synchronous_commit = on for the user that locks",
        ));
    }
    let version = row.int(2)?;
    if version < OLDEST_MAINTAINED {
        findings.push(finding::warning(
            "version-too-old",
            format!("the server is PostgreSQL {}", version / 10_000),
            "it gets no fixes any more",
            "upgrade it",
        ));
    }
    let replicas = row.int(6)?;
    let waits_for_replicas = row.text(7)?.is_some_and(|names| !names.is_empty());
    if replicas > 0 && !waits_for_replicas {
        findings.push(finding::note(
            "replicas",
            format!("{replicas} replicas follow the server, and it doesn't wait for them"),
            "if one takes over, locks granted just before are free again",
            "let what the lock protects check fences, or have the server wait: \
                  synchronous_standby_names",
        ));
    }
    if let Some(sign) = row.text(8)? {
        findings.push(finding::warning(
            "multi-primary",
            format!("rows may come from another server: there is {sign}"),
            "where two servers take writes for one table, both grant the same lock",
            "lock on one of them only, and leave Lockwright's tables out of the replication",
        ));
    }
    findings.extend(doctor::clock(row.int(9)?, asked, answered));
    let (transactions, seconds) = (row.int(10).unwrap_or(0), row.int(11).unwrap_or(0));
    if transactions > OLD_SNAPSHOT.0 || seconds > OLD_SNAPSHOT.1 {
        findings.push(finding::warning(
            "long-transaction",
            format!(
                "a transaction, a prepared transaction or a replication slot keeps a snapshot that \
                 is {transactions} transactions old"
            ),
            "each renewal leaves an old version of a row, which the server can't remove, so \
                  requests take longer and longer",
            "end it; look at backend_xmin in pg_stat_activity, at pg_prepared_xacts and at \
                  pg_replication_slots, and set idle_in_transaction_session_timeout",
        ));
    }
    Ok((is_replica, findings))
}

async fn encryption(pool: &Pool<Postgresql>) -> Result<Option<Finding>> {
    const IS_ENCRYPTED: &str =
        "SELECT coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)";

    let server = &pool.dialect().server;
    let is_demanded = matches!(
        server.get_ssl_mode(),
        PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
    );
    let is_encrypted = |rows: &[Row]| rows.first().ok_or(BadRow)?.bool(0);
    let fix = "ssl = on in the server, and sslmode=verify-full in the URL";
    doctor::encryption(pool, is_demanded, server.get_host(), IS_ENCRYPTED, is_encrypted, fix).await
}

async fn tables(pool: &Pool<Postgresql>) -> Result<Vec<Finding>> {
    let sql = Sql::new(&pool.dialect().expand(include_str!("queries/examine_tables.sql")));
    let examining = async {
        schema::look(pool).await?;
        pool.fetch(&sql, &[], Effect::Reads).await
    };
    let rows = match examining.await {
        Ok(rows) => rows,
        Err(error) => return Ok(vec![doctor::no_tables(&error)]),
    };
    let read = rows.first().ok_or(BadRow).and_then(|row| Ok((row.bool(0)?, row.int(1)?)));
    let (writable, names) = pool.sound(read)?;
    let not_writable = (!writable).then(doctor::not_writable);
    Ok(not_writable.into_iter().chain(doctor::many_names(names, "the table has")).collect())
}

async fn pooler(pool: &Arc<Pool<Postgresql>>) -> Result<Option<Finding>> {
    if pool.dialect().borrows() {
        return Ok(None);
    }
    if !pooler::Server::look(pool).await?.is_direct {
        return Ok(Some(finding::note(
            "pooler",
            "a pooler is between this client and the server",
            "clients can't listen for a release through it, so waiters poll",
            "connect to the server itself where waiting should be quick",
        )));
    }
    Ok((!listener::is_notified_at_all(pool).await?).then(|| {
        finding::warning(
            "notifications",
            "a notification that was sent didn't arrive",
            "waiters notice a release only at their next poll",
            "look for a pooler or proxy between this client and the server",
        )
    }))
}
