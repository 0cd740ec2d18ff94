use std::time::SystemTime;

use lockwright_core::{ErrorKind, Finding, Result};
use sqlx::mysql::MySqlSslMode;

use super::dialect::MySql;
use super::facts::Facts;
use super::proxy;
use crate::server::{BadRow, Dialect, Effect, Pool, Row, Sql, doctor, schema};
use lockwright_core::backend_util::finding;

pub(super) async fn examine(pool: &Pool<MySql>) -> Result<Vec<Finding>> {
    let facts = Facts::look(pool).await?;
    let mut findings = server(&facts);
    findings.extend(clock(pool).await?);
    findings.extend(encryption(pool).await?);
    findings.extend(tables(pool, &facts).await?);
    if !pool.dialect().borrows() {
        findings.extend(proxied(proxy::shares_sessions(pool).await));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn proxied(shares_sessions: Result<Option<bool>>) -> Option<Finding> {
    let unknown = match shares_sessions {
        Ok(Some(false)) => return None,
        Ok(Some(true)) => {
            return Some(finding::note(
                "proxy",
                "a proxy shares the server's sessions among connections, or has its own connection \
                 numbers",
                "the modes session and row can't be used",
                "connect to the server itself for these modes",
            ));
        }
        Ok(None) => "two connections got no answer in time".to_owned(),
        Err(error) => error.to_string(),
    };
    Some(finding::note(
        "proxy-unknown",
        format!("it is unknown whether a proxy shares the server's sessions: {unknown}"),
        "the modes session and row may be unusable",
        "leave two connections free, and run the doctor again",
    ))
}

fn server(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(setting) = facts.only_reads() {
        findings.push(finding::error(
            "read-only",
            format!("the server is read-only: {setting} is set"),
            "nothing can be locked on it, except by privileged users; most likely it is a \
                  replica",
            "connect to its primary",
        ));
    }
    if let Some(value) = facts.text("innodb_flush_log_at_trx_commit").filter(|value| *value != "1")
    {
        findings.push(finding::warning(
            "durability",
            format!("innodb_flush_log_at_trx_commit is {value}"),
            "a crash of the machine (with 0, of the server too) frees locks that were \
                  granted just before; two clients may then hold the same lock, and fences may \
                  repeat",
            "innodb_flush_log_at_trx_commit = 1",
        ));
    }
    let logs = facts.is_on("log_bin");
    if let Some(value) = facts.text("sync_binlog").filter(|value| logs && *value != "1") {
        findings.push(finding::note(
            "binary-log-durability",
            format!("sync_binlog is {value}"),
            "after a crash of the machine replicas may lack locks that were granted just \
                  before, or have some that the server lost",
            "sync_binlog = 1, where a replica may take over",
        ));
    }
    if facts.is_too_old() {
        findings.push(finding::error(
            "version-too-old",
            format!("the server is version {}", facts.version()),
            "it lacks features that Lockwright needs, and gets no fixes any more",
            "upgrade it: MariaDB 10.6 or MySQL 8.0 at least",
        ));
    }
    if let Some(what) = facts.multi_primary() {
        findings.push(finding::warning(
            "multi-primary",
            format!("the server is one of {what}"),
            "a write arrives late on the other servers, so a failing server may lose a hold \
                  that it granted; the modes session and row lock on a single server only",
            "connect all clients to the same server",
        ));
    }
    if logs && facts.text("binlog_format") == Some("STATEMENT") {
        findings.push(finding::error(
            "binary-log-format",
            "binlog_format is STATEMENT",
            "the server rejects Lockwright's writes, which can't be logged as statements",
            "binlog_format = MIXED or ROW",
        ));
    }
    findings
}

async fn clock(pool: &Pool<MySql>) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    let sql = Sql::new(&dialect.expand(include_str!("queries/examine.sql")));
    let asked = SystemTime::now();
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    let answered = SystemTime::now();
    let read = rows.first().ok_or(BadRow).and_then(|row| Ok((row.bool(0)?, row.int(1)?)));
    let (stands, now) = pool.sound(read)?;
    let stands = stands.then(|| {
        finding::warning(
            "clock-stands-still",
            "SYSDATE is the time at which a statement began: sysdate-is-now is set",
            "a request that has waited for another uses an old time, and may renew an expired \
                  hold that no other client has acquired",
            "remove sysdate-is-now from the server's settings",
        )
    });
    Ok(stands.into_iter().chain(doctor::clock(now, asked, answered)).collect())
}

async fn encryption(pool: &Pool<MySql>) -> Result<Option<Finding>> {
    const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";

    let server = &pool.dialect().server;
    let is_demanded = matches!(
        server.get_ssl_mode(),
        MySqlSslMode::Required | MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity
    );
    let is_encrypted = |rows: &[Row]| {
        let cipher = rows.first().and_then(|row| row.text(1).ok()).flatten();
        Ok(!cipher.unwrap_or_default().is_empty())
    };
    let fix = "ssl_cert and ssl_key in the server, ssl-mode=VERIFY_IDENTITY in the URL";
    doctor::encryption(pool, is_demanded, server.get_host(), CIPHER, is_encrypted, fix).await
}

async fn tables(pool: &Pool<MySql>, facts: &Facts) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    if let Err(error) = schema::look(pool).await {
        return Ok(vec![doctor::no_tables(&error)]);
    }
    let mut findings = Vec::new();
    let write = Sql::new(&dialect.expand(include_str!("queries/examine_tables.sql")));
    if facts.only_reads().is_none() {
        match pool.fetch(&write, &[], Effect::Reads).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Denied => {
                findings.push(doctor::not_writable());
            }
            Err(error) => findings.push(doctor::no_tables(&error)),
        }
    }
    let size = Sql::new(&dialect.expand(include_str!("queries/examine_size.sql")));
    let rows = pool.fetch(&size, &[], Effect::Reads).await?;
    let names = rows.first().and_then(|row| row.int(0).ok()).unwrap_or_default();
    findings.extend(doctor::many_names(names, "the tables have"));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use lockwright_core::Error;

    use super::*;

    #[test]
    fn only_a_found_proxy_is_reported_as_one() {
        for (answer, code) in [
            (Ok(Some(false)), None),
            (Ok(Some(true)), Some("proxy")),
            (Ok(None), Some("proxy-unknown")),
            (Err(Error::unavailable("no connection left")), Some("proxy-unknown")),
        ] {
            assert_eq!(proxied(answer).map(|finding| finding.code), code);
        }
    }
}
