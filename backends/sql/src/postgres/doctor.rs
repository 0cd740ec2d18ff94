use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_core::{Error, Finding, Result, Severity};

use super::dialect::Postgresql;
use super::{listener, pooler, tls};
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;
use crate::server::schema;
use crate::server::sql::Sql;

const OLDEST_MAINTAINED: i64 = 140_000;

const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

const MANY_NAMES: i64 = 1_000_000;

/// The ages (in transactions, in seconds) above which a snapshot is old.
const OLD_SNAPSHOT: (i64, i64) = (10_000, 60);

#[derive(Debug)]
struct Facts {
    is_replica: bool,
    reads_only: bool,
    version: i64,
    fsync: bool,
    full_page_writes: bool,
    synchronous_commit: String,
    replicas: i64,
    waits_for_replicas: bool,
    multi_primary: Option<String>,
    now: i64,
    oldest_snapshot: (i64, i64),
}

impl Facts {
    fn of(rows: &[Row]) -> Result<Self, BadRow> {
        let row = rows.first().ok_or(BadRow)?;
        Ok(Self {
            is_replica: row.bool(0)?,
            reads_only: row.bool(1)?,
            version: row.int(2)?,
            fsync: row.bool(3)?,
            full_page_writes: row.bool(4)?,
            synchronous_commit: row.text(5)?.unwrap_or_default().to_owned(),
            replicas: row.int(6)?,
            waits_for_replicas: row.text(7)?.is_some_and(|names| !names.is_empty()),
            multi_primary: row.text(8)?.map(str::to_owned),
            now: row.int(9)?,
            oldest_snapshot: (row.int(10).unwrap_or(0), row.int(11).unwrap_or(0)),
        })
    }
}

pub(super) async fn examine(pool: &Pool<Postgresql>) -> Result<Vec<Finding>> {
    let dialect = pool.dialect();
    let sql = Sql::new(&dialect.expand(include_str!("queries/examine.sql")));
    let asked = SystemTime::now();
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    let answered = SystemTime::now();
    let facts = Facts::of(&rows).map_err(|bad| bad_row(bad, dialect.backend()))?;

    let mut findings = Vec::new();
    findings.extend(read_only(&facts));
    findings.extend(durability(&facts));
    findings.extend(version(&facts));
    findings.extend(replicas(&facts));
    findings.extend(multi_primary(&facts));
    findings.extend(clock(&facts, asked, answered));
    findings.extend(long_transaction(&facts));
    findings.extend(tls::look(pool).await?);
    findings.extend(tables(pool).await?);
    // In the other modes, `session_lock::doctor` reports a pooler that shares sessions.
    if !facts.is_replica && dialect.is_for_leases() {
        findings.extend(pooler(pool).await?);
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

fn read_only(facts: &Facts) -> Option<Finding> {
    if facts.is_replica {
        return Some(Finding {
            severity: Severity::Error,
            code: "replica",
            what: "the server is a replica".to_owned(),
            why: "a replica refuses writes, so nothing can be locked on it".to_owned(),
            fix: "connect to its primary".to_owned(),
        });
    }
    facts.reads_only.then(|| Finding {
        severity: Severity::Error,
        code: "read-only",
        what: "transactions are read-only by default for this user or database".to_owned(),
        why: "nothing can be locked".to_owned(),
        fix: "default_transaction_read_only = off for the user that locks".to_owned(),
    })
}

fn durability(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.fsync || !facts.full_page_writes {
        let setting = if facts.fsync { "full_page_writes" } else { "fsync" };
        findings.push(Finding {
            severity: Severity::Error,
            code: "fsync",
            what: format!("{setting} is off"),
            why: "after a crash of the machine holds and fences may be gone, or the tables damaged"
                .to_owned(),
            fix: format!("{setting} = on"),
        });
    }
    if facts.synchronous_commit == "off" {
        findings.push(Finding {
            severity: Severity::Warning,
            code: "synchronous-commit",
            what: "synchronous_commit is off for this user".to_owned(),
            why: "a crash of the server frees locks that were granted just before; two clients \
                  may then hold the same lock"
                .to_owned(),
            fix: "ALTER ROLE … SET synchronous_commit = on for the user that locks".to_owned(),
        });
    }
    findings
}

fn version(facts: &Facts) -> Option<Finding> {
    (facts.version < OLDEST_MAINTAINED).then(|| Finding {
        severity: Severity::Warning,
        code: "version-too-old",
        what: format!("the server is PostgreSQL {}", facts.version / 10_000),
        why: "it gets no fixes any more".to_owned(),
        fix: "upgrade it".to_owned(),
    })
}

fn replicas(facts: &Facts) -> Option<Finding> {
    (facts.replicas > 0 && !facts.waits_for_replicas).then(|| Finding {
        severity: Severity::Note,
        code: "replicas",
        what: format!(
            "{} replicas follow the server, and it doesn't wait for them",
            facts.replicas
        ),
        why: "if one takes over, locks granted just before are free again".to_owned(),
        fix: "let what the lock protects check fences, or have the server wait: \
              synchronous_standby_names"
            .to_owned(),
    })
}

fn multi_primary(facts: &Facts) -> Option<Finding> {
    facts.multi_primary.as_ref().map(|sign| Finding {
        severity: Severity::Warning,
        code: "multi-primary",
        what: format!("rows may come from another server: there is {sign}"),
        why: "where two servers take writes for one table, both grant the same lock".to_owned(),
        fix: "lock on one of them only, and leave Lockwright's tables out of the replication"
            .to_owned(),
    })
}

fn long_transaction(facts: &Facts) -> Option<Finding> {
    let (transactions, seconds) = facts.oldest_snapshot;
    (transactions > OLD_SNAPSHOT.0 || seconds > OLD_SNAPSHOT.1).then(|| Finding {
        severity: Severity::Warning,
        code: "long-transaction",
        what: format!(
            "a transaction, a prepared transaction or a replication slot keeps a snapshot that is \
             {transactions} transactions old"
        ),
        why: "each renewal leaves an old version of a row, which the server can't remove, so \
              requests take longer and longer"
            .to_owned(),
        fix: "end it; look at backend_xmin in pg_stat_activity, at pg_prepared_xacts and at \
              pg_replication_slots, and set idle_in_transaction_session_timeout"
            .to_owned(),
    })
}

fn clock(facts: &Facts, asked: SystemTime, answered: SystemTime) -> Option<Finding> {
    let server = UNIX_EPOCH + Duration::from_micros(facts.now.try_into().unwrap_or(0));
    let ahead = server.duration_since(answered).unwrap_or_default();
    let behind = asked.duration_since(server).unwrap_or_default();
    let difference = ahead.max(behind);
    (difference > CLOCK_TOLERANCE).then(|| Finding {
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
    })
}

async fn tables(pool: &Pool<Postgresql>) -> Result<Vec<Finding>> {
    if let Err(error) = schema::look(pool).await {
        return Ok(vec![no_tables(&error)]);
    }
    let sql = Sql::new(&pool.dialect().expand(include_str!("queries/examine_tables.sql")));
    let rows = pool.fetch(&sql, &[], Effect::Reads).await?;
    let read = || {
        let row = rows.first().ok_or(BadRow)?;
        Ok((row.bool(0)?, row.int(1)?))
    };
    let (writable, names) = read().map_err(|bad| bad_row(bad, pool.dialect().backend()))?;
    let mut findings = Vec::new();
    if !writable {
        findings.push(Finding {
            severity: Severity::Error,
            code: "tables-not-writable",
            what: "the user lacks a permission on Lockwright's tables".to_owned(),
            why: "requests fail".to_owned(),
            fix: "GRANT SELECT, INSERT, UPDATE, DELETE on them".to_owned(),
        });
    }
    if names > MANY_NAMES {
        findings.push(Finding {
            severity: Severity::Note,
            code: "many-names",
            what: format!("the table has rows of about {names} names"),
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

async fn pooler(pool: &Pool<Postgresql>) -> Result<Option<Finding>> {
    if !pooler::Server::look(pool).await?.is_direct {
        return Ok(Some(Finding {
            severity: Severity::Note,
            code: "pooler",
            what: "a pooler is between this client and the server".to_owned(),
            why: "clients can't listen for a release through it, so waiters poll".to_owned(),
            fix: "connect to the server itself where waiting should be quick".to_owned(),
        }));
    }
    Ok((!listener::is_notified_at_all(pool).await?).then(|| Finding {
        severity: Severity::Warning,
        code: "notifications",
        what: "a notification that was sent didn't arrive".to_owned(),
        why: "waiters notice a release only at their next poll".to_owned(),
        fix: "look for a pooler or proxy between this client and the server".to_owned(),
    }))
}
