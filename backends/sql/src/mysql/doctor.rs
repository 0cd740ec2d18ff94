use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_core::{Error, ErrorKind, Finding, Result, Severity};

use super::dialect::MySql;
use super::facts::Facts;
use super::{proxy, tls};
use crate::server::dialect::{BadRow, Dialect};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;
use crate::server::schema;
use crate::server::sql::Sql;

const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

const MANY_NAMES: i64 = 1_000_000;

pub(super) async fn examine(pool: &Pool<MySql>) -> Result<Vec<Finding>> {
    let facts = Facts::look(pool).await?;
    let mut findings = Vec::new();
    findings.extend(read_only(&facts));
    findings.extend(durability(&facts));
    findings.extend(version(&facts));
    findings.extend(multi_primary(&facts));
    findings.extend(binary_log(&facts));
    findings.extend(clock(pool).await?);
    findings.extend(tls::look(pool).await?);
    findings.extend(tables(pool, &facts).await?);
    if proxy::shares_sessions(pool).await? != Some(false) {
        findings.push(shared_sessions());
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn read_only(facts: &Facts) -> Option<Finding> {
    facts.only_reads().map(|setting| Finding {
        severity: Severity::Error,
        code: "read-only",
        what: format!("the server is read-only: {setting} is set"),
        why: "nothing can be locked on it, except by privileged users; most likely it is a replica"
            .to_owned(),
        fix: "connect to its primary".to_owned(),
    })
}

fn durability(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.text("innodb_flush_log_at_trx_commit").is_some_and(|value| value != "1") {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "durability",
            what: format!(
                "innodb_flush_log_at_trx_commit is {}",
                facts.text("innodb_flush_log_at_trx_commit").unwrap_or_default()
            ),
            why: "a crash of the machine (with 0, of the server too) frees locks that were \
                  granted just before; two clients may then hold the same lock, and fences may \
                  repeat"
                .to_owned(),
            fix: "innodb_flush_log_at_trx_commit = 1".to_owned(),
        });
    }
    if facts.is_on("log_bin") && facts.text("sync_binlog").is_some_and(|value| value != "1") {
        findings.push(Finding {
            severity: Severity::Note,
            code: "binary-log-durability",
            what: format!("sync_binlog is {}", facts.text("sync_binlog").unwrap_or_default()),
            why: "after a crash of the machine replicas may lack locks that were granted just \
                  before, or have some that the server lost"
                .to_owned(),
            fix: "sync_binlog = 1, where a replica may take over".to_owned(),
        });
    }
    findings
}

fn version(facts: &Facts) -> Option<Finding> {
    facts.is_too_old().then(|| Finding {
        severity: Severity::Error,
        code: "version-too-old",
        what: format!("the server is version {}", facts.version()),
        why: "it lacks features that Lockwright needs, and gets no fixes any more".to_owned(),
        fix: "upgrade it: MariaDB 10.6 or MySQL 8.0 at least".to_owned(),
    })
}

fn multi_primary(facts: &Facts) -> Option<Finding> {
    facts.multi_primary().map(|what| Finding {
        severity: Severity::Warning,
        code: "multi-primary",
        what: format!("the server is one of {what}"),
        why: "a write arrives late on the other servers, so a failing server may lose a hold that \
              it granted; the modes session and row lock on a single server only"
            .to_owned(),
        fix: "connect all clients to the same server".to_owned(),
    })
}

fn binary_log(facts: &Facts) -> Option<Finding> {
    let statements =
        facts.is_on("log_bin") && facts.text("binlog_format").is_some_and(|f| f == "STATEMENT");
    statements.then(|| Finding {
        severity: Severity::Error,
        code: "binary-log-format",
        what: "binlog_format is STATEMENT".to_owned(),
        why: "the server rejects Lockwright's writes, which can't be logged as \
              statements"
            .to_owned(),
        fix: "binlog_format = MIXED or ROW".to_owned(),
    })
}

async fn clock(pool: &Pool<MySql>) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    let sql = Sql::new(&dialect.expand(include_str!("queries/examine.sql")));
    let asked = SystemTime::now();
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    let answered = SystemTime::now();
    let read = || {
        let row = rows.first().ok_or(BadRow)?;
        Ok((row.bool(0)?, row.int(1)?))
    };
    let (stands, now) = read().map_err(|bad| bad_row(bad, dialect.backend()))?;
    let mut findings = Vec::new();
    if stands {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "clock-stands-still",
            what: "SYSDATE is the time at which a statement began: sysdate-is-now is set"
                .to_owned(),
            why:
                "a request that has waited for another uses an old time, and may renew an expired \
                 hold that no other client has acquired"
                    .to_owned(),
            fix: "remove sysdate-is-now from the server's settings".to_owned(),
        });
    }
    let server = UNIX_EPOCH + Duration::from_micros(now.try_into().unwrap_or(0));
    let ahead = server.duration_since(answered).unwrap_or_default();
    let behind = asked.duration_since(server).unwrap_or_default();
    let difference = ahead.max(behind);
    if difference > CLOCK_TOLERANCE {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "clock",
            what: format!(
                "the server's clock is {difference:.1?} {} this machine's",
                if ahead > behind { "ahead of" } else { "behind" }
            ),
            why: "one of them is wrong; if the server's is set forward, holds expire while their \
                 clients still use them"
                .to_owned(),
            fix: "synchronise both, by slewing and not by stepping".to_owned(),
        });
    }
    Ok(findings)
}

async fn tables(pool: &Pool<MySql>, facts: &Facts) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    if let Err(error) = schema::look(pool).await {
        return Ok(vec![no_tables(&error)]);
    }
    let mut findings = Vec::new();
    let write = Sql::new(&dialect.expand(include_str!("queries/examine_tables.sql")));
    if facts.only_reads().is_none() {
        match pool.fetch(&write, &[], Effect::Reads).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Denied => findings.push(Finding {
                severity: Severity::Error,
                code: "tables-not-writable",
                what: "the user lacks a permission on Lockwright's tables".to_owned(),
                why: "requests fail".to_owned(),
                fix: "GRANT SELECT, INSERT, UPDATE, DELETE on them".to_owned(),
            }),
            Err(error) => findings.push(no_tables(&error)),
        }
    }
    let size = Sql::new(&dialect.expand(include_str!("queries/examine_size.sql")));
    let rows = pool.fetch(&size, &[], Effect::Reads).await?;
    let names = rows.first().and_then(|row| row.int(0).ok()).unwrap_or_default();
    if names > MANY_NAMES {
        findings.push(Finding {
            severity: Severity::Note,
            code: "many-names",
            what: format!("the tables have rows of about {names} names"),
            why: "the row of a free name is kept for its fence".to_owned(),
            fix: "run `lockwright sweep` regularly".to_owned(),
        });
    }
    Ok(findings)
}

fn no_tables(error: &Error) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "tables",
        what: error.to_string(),
        why: "nothing can be locked without Lockwright's tables".to_owned(),
        fix: "connect as a user who may create them, or create them with the SQL that `lockwright \
              schema` prints"
            .to_owned(),
    }
}

fn shared_sessions() -> Finding {
    Finding {
        severity: Severity::Note,
        code: "proxy",
        what: "a proxy shares a session of the server among several connections".to_owned(),
        why: "the modes session and row can't be used".to_owned(),
        fix: "connect to the server itself for these modes".to_owned(),
    }
}
