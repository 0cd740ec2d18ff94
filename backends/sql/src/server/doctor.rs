use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_core::{Error, ErrorKind, Finding, Result};

use super::tls::is_on_this_machine;
use super::{BadRow, Dialect, Effect, Pool, Row};
use lockwright_core::backend_util::finding;

const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

const MANY_NAMES: i64 = 1_000_000;

const FEW_CONNECTIONS: i64 = 20;

/// Returns a finding if the connection leaves this machine without encryption. Behind a pooler,
/// `query` examines only the pooler's connection to the server.
pub(crate) async fn encryption<D: Dialect>(
    pool: &Pool<D>,
    is_demanded: bool,
    host: &str,
    query: &str,
    is_encrypted: impl Fn(&[Row]) -> Result<bool, BadRow>,
    fix: &str,
) -> Result<Option<Finding>> {
    if is_demanded || pool.dialect().is_by_file() || is_on_this_machine(host) {
        return Ok(None);
    }
    let rows = pool.fetch_text(query.to_owned(), Effect::Reads).await?;
    if pool.sound(is_encrypted(&rows))? {
        return Ok(None);
    }
    let needs =
        if cfg!(feature = "tls") { "" } else { "; this build needs the feature `tls` for it" };
    Ok(Some(finding::warning(
        "connection-not-encrypted",
        "the connection leaves this machine, and is not encrypted",
        "a network attacker can read, take or release locks",
        format!("{fix}{needs}"),
    )))
}

/// Compares the server's time `now`, in µs, with this machine's.
pub(crate) fn clock(now: i64, asked: SystemTime, answered: SystemTime) -> Option<Finding> {
    let server = UNIX_EPOCH + Duration::from_micros(now.try_into().unwrap_or(0));
    let ahead = server.duration_since(answered).unwrap_or_default();
    let behind = asked.duration_since(server).unwrap_or_default();
    let difference = ahead.max(behind);
    let direction = if ahead > behind { "ahead of" } else { "behind" };
    (difference > CLOCK_TOLERANCE).then(|| {
        finding::warning(
            "clock",
            format!("the server's clock is {difference:.1?} {direction} this machine's"),
            "one of them is wrong; if the server's is set forward, holds expire while their \
                  clients still use them",
            "synchronise both, by slewing and not by stepping",
        )
    })
}

pub(crate) fn no_tables(error: &Error) -> Finding {
    finding::error(
        "tables",
        error.to_string(),
        "nothing can be locked without Lockwright's tables",
        "connect as a user who may create them, or create them with the SQL that `lockwright \
              schema` prints",
    )
}

pub(crate) fn not_writable() -> Finding {
    finding::error(
        "tables-not-writable",
        "the user lacks a permission on Lockwright's tables",
        "requests fail",
        "GRANT SELECT, INSERT, UPDATE, DELETE on them",
    )
}

pub(crate) fn many_names(names: i64, tables_have: &str) -> Option<Finding> {
    (names > MANY_NAMES).then(|| {
        finding::note(
            "many-names",
            format!("{tables_have} rows of about {names} names"),
            "the row of a free name is kept for its fence",
            "run `lockwright sweep` regularly",
        )
    })
}

pub(crate) fn no_session(error: &Error, fix: &str) -> Finding {
    finding::error(
        "no-session",
        format!("can't open a connection for a hold: {error}"),
        "a hold needs a connection, which the server ends when it is idle for longer than the \
              TTL",
        fix,
    )
}

pub(crate) fn shared_sessions(error: &Error) -> Finding {
    if error.kind() == ErrorKind::Unsupported {
        return finding::error(
            "shared-sessions",
            error.to_string(),
            "a session's locks must stay with one connection",
            "connect to the server itself, or use the mode lease",
        );
    }
    finding::warning(
        "sessions-unknown",
        format!("it is unknown whether connections share sessions: {error}"),
        "a session's locks must stay with one connection",
        "leave two connections free, and run the doctor again",
    )
}

pub(crate) fn few_connections(free: i64) -> Option<Finding> {
    (free < FEW_CONNECTIONS).then(|| {
        finding::warning(
            "few-connections",
            format!("the server has room for {free} more connections"),
            "holds take them, and so does each name that a process waits for",
            "raise max_connections, or use the mode lease",
        )
    })
}
