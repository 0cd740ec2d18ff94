//! The modes `session` (a hold is an advisory lock) and `row` (a row locked by
//! `SELECT … FOR UPDATE` in an open transaction). Readers use `pg_advisory_lock_shared` or
//! `FOR SHARE`.
//!
//! # Keys of advisory locks
//!
//! - **Name** (mode `session`): its [key](super::transaction#the-key-of-a-name). The mode `row`
//!   locks the name's row of `lockwright_row`.
//! - **Barrier**, which a writer closes to wait for readers: two 32-bit keys. In the mode
//!   `session`, they are bits 65 to 128 of the name's SHA-256. In the mode `row`, they are bits 129
//!   to 192 of the SHA-256 of the table's id and the name. A new reader first locks the barrier as
//!   shared.
//! - **Claim**: the first 64 bits of the SHA-256 of the token and the name. Each session takes this
//!   lock before it waits. Only one session has it, and other clients find the session by it. The
//!   `application_name` of a joint session is `lockwright/joint`, of others `lockwright/own`.

mod connection;
mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::backend_util::finding;
use lockwright_core::{Fault, Finding, LockName, Profile, Result, async_trait};
use sha2::{Digest, Sha256};

use super::dialect::Postgresql;
use crate::kind::READERS;
use crate::queries::files;
use crate::server::session_lock::{Kind, Permit, Server, Sessions};
use crate::server::{Dialect, Effect, Pool, doctor, session_lock};

use connection::PgSession;
pub(super) use probe::check;

/// PostgreSQL's longest idle timeout, 2^31 - 1 ms, in whole minutes.
const LONGEST_TTL: Duration = Duration::from_secs(35_791 * 60);

pub(crate) struct Own {
    /// False once the server has refused `client_connection_check_interval`.
    checks_clients: AtomicBool,
}

#[async_trait]
impl Server for Postgresql {
    type Session = PgSession;
    type Own = Own;

    const QUERIES: &'static str =
        files!("acquire", "end", "inspect", "record", "release", "renew", "sweep");
    const BETWEEN: &'static str = "pooler";

    fn profile(kind: Kind) -> Profile {
        let backend = match kind {
            Kind::Session => "postgres-session",
            Kind::Row => "postgres-row",
        };
        // `ServerClockStep` isn't survived, because idle timeouts use the wall clock. A hold with a
        // TTL below 200 ms could expire before it is recorded.
        let ttl = Duration::from_millis(200)..=LONGEST_TTL;
        session_lock::profile(backend, true, &[Fault::ClientCrash], ttl)
    }

    fn expand_for(&self, kind: Kind, text: &str) -> String {
        let text = text
            .replace("{overwritten}", OVERWRITTEN)
            .replace("{close_barrier}", CLOSE_BARRIER)
            .replace("{has_readers}", HAS_READERS)
            .replace("{last_is_reading}", &reads(kind, "held.session", "held.identity"))
            .replace("{other_is_reading}", &reads(kind, "other.session", "other.token"))
            .replace("{records}", RECORDS)
            .replace("{is_claim_lock}", IS_CLAIM_LOCK)
            .replace("{is_advisory}", IS_ADVISORY)
            .replace("{in_this_database}", IN_THIS_DATABASE)
            .replace("{lock_key}", LOCK_KEY)
            .replace("{own}", OWN)
            .replace("{joint}", JOINT)
            .replace("{claim}", &once(&claim_of(":name", ":token")))
            .replace("{claim_of_held}", &claim_of_held())
            .replace("{rest}", REST)
            .replace("{waited_us}", WAITED_US)
            .replace("{must_raise}", MUST_RAISE)
            .replace("{now}", Self::NOW)
            .replace("{kind}", kind.word())
            .replace("{readers}", READERS)
            .replace("{barrier}", &barrier(kind))
            .replace("{barrier_as_one}", &barrier_as_one(kind))
            .replace("{key}", &once(&key_from(":name", 1)))
            .replace("{key_of_held}", &key_from("held.name", 1))
            .replace("{left}", LEFT)
            .replace("{since}", SINCE);
        self.tables().expand(&text, Self::QUOTE)
    }

    fn own(_: &Arc<Pool<Self>>) -> Own {
        Own { checks_clients: AtomicBool::new(true) }
    }

    async fn open_session(
        sessions: &Arc<Sessions<Self>>,
        permit: Permit<Self>,
    ) -> Result<PgSession> {
        PgSession::connect(sessions, permit).await
    }

    async fn doctor(sessions: &Arc<Sessions<Self>>) -> Result<Vec<Finding>> {
        let pool = &sessions.pool;
        let mut findings = pool.dialect().examine(pool).await?;
        if let Err(error) = sessions.try_open().await {
            let fix = "let the user set idle_session_timeout and idle_in_transaction_session_timeout, \
                       and leave connections free";
            findings.push(doctor::no_session(&error, fix));
        } else if !sessions.own.checks_clients.load(Ordering::Relaxed) {
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
}

/// Returns SQL for whether a recorded reader still has its hold. The SQL refers to the row `held`,
/// so PostgreSQL evaluates it after locking that row. The claim's lock alone proves no hold: a
/// session that ends may lose the name's lock (mode `session`) or the transaction (mode `row`)
/// first.
fn reads(kind: Kind, session: &str, token: &str) -> String {
    let has_key = "{is_advisory} AND locks.objsubid = 1 AND {lock_key}";
    let lock = match kind {
        Kind::Session => format!("{has_key} = {{key_of_held}}"),
        Kind::Row => "locks.locktype = 'transactionid'".to_owned(),
    };
    let claim = claim_of("held.name", token);
    format!(
        "(SELECT bool_or({has_key} = {claim}) AND bool_or({lock}) FROM pg_locks AS locks \
          WHERE locks.pid = {session} AND locks.granted)"
    )
}

/// Returns SQL for the text whose SHA-256 has the barrier's keys, and their position in its hex
/// digits. In the mode `row`, the text includes the table, because a database's tables share its
/// advisory locks.
fn barrier_of(kind: Kind) -> (&'static str, usize) {
    match kind {
        Kind::Session => (":name", 17),
        Kind::Row => ("'{row}'::regclass::oid::text || :name", 33),
    }
}

fn barrier(kind: Kind) -> String {
    let (text, at) = barrier_of(kind);
    let half = |at| format!("('x' || {})::bit(32)::int", digits_from(text, at, 8));
    format!("{}, {}", half(at), half(at + 8))
}

fn barrier_as_one(kind: Kind) -> String {
    let (text, at) = barrier_of(kind);
    once(&key_from(text, at))
}

fn digits_from(name: &str, at: usize, count: usize) -> String {
    format!("substr(encode(sha256(convert_to({name}, 'UTF8')), 'hex'), {at}, {count})")
}

fn key_from(name: &str, at: usize) -> String {
    format!("('x' || {})::bit(64)::bigint", digits_from(name, at, 16))
}

fn claim_of(name: &str, token: &str) -> String {
    key_from(&format!("{token} || {name}"), 1)
}

/// Returns SQL for a value that the server computes once for all rows.
fn once(value: &str) -> String {
    format!("(SELECT {value})")
}

fn claim_of_held() -> String {
    let claim = claim_of("held.name", "held.token");
    format!("CASE WHEN held.token <> '{READERS}' THEN {claim} END")
}

fn key_of(name: &LockName) -> i64 {
    first_64_bits(Sha256::digest(name.as_str()))
}

fn key_of_claim(token: &str, name: &LockName) -> i64 {
    first_64_bits(Sha256::new_with_prefix(token).chain_update(name.as_str()).finalize())
}

fn first_64_bits(hash: impl Into<[u8; 32]>) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.into();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

const MUST_RAISE: &str = "(NOT EXISTS (SELECT FROM {hold_raised}) \
     OR (SELECT last_value FROM {hold_fence}) < {now} - 60000000)";

const HAS_READERS: &str = "EXISTS (SELECT FROM {hold} \
     WHERE kind = '{kind}' AND name = :name AND token = '{readers}')";

/// SQL that closes the barrier before a writer waits for readers, unless this or another writer has
/// closed it. Readers lock the barrier only for a moment.
const CLOSE_BARRIER: &str = "CASE WHEN {has_readers} \
     AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted \
         AND (pid = pg_backend_pid() OR mode = 'ExclusiveLock' \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND (classid::bigint << 32) | objid::bigint = {barrier_as_one})) \
     THEN pg_advisory_lock({barrier})::text END";

/// SQL that overwrites a record with a new holder's values, except the fence, which readers may
/// share.
const OVERWRITTEN: &str = "token = excluded.token, identity = excluded.identity, \
     ttl_ms = excluded.ttl_ms, session = excluded.session, updated = excluded.updated, \
     broken = CASE WHEN held.token = excluded.token THEN held.broken END, released = false";

const WAITED_US: &str =
    "(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint";

const OWN: &str = "lockwright/own";

const JOINT: &str = "lockwright/joint";

const IS_ADVISORY: &str = "locks.locktype = 'advisory' AND {in_this_database}";

const IN_THIS_DATABASE: &str =
    "locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

const LOCK_KEY: &str = "((locks.classid::bigint << 32) | locks.objid::bigint)";

const IS_CLAIM_LOCK: &str = "{is_advisory} AND locks.objsubid = 1 AND {lock_key} = {claim}";

const RECORDS: &str = "\
     SELECT name, token, identity, fence, ttl_ms, session, updated, broken, false AS shared FROM {hold} \
     WHERE kind = '{kind}' \
     UNION ALL \
     SELECT name, token, identity, fence, ttl_ms, session, updated, broken, true FROM {reader} \
     WHERE kind = '{kind}'";

/// SQL for the rest of a wait's limit, `:slice_ms`, after the request's earlier statements.
const REST: &str = "greatest(1, least(:slice_ms, :slice_ms - \
     (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint))::text";

/// SQL for a hold's remaining time in µs, or NULL if the user may not see the session. A broken
/// hold lasts at most its recorded TTL from the record's last change, even if its session was used
/// since.
const LEFT: &str = "CASE WHEN holding.state IS NULL THEN NULL ELSE \
     greatest(0, held.ttl_ms * 1000 - greatest(0, \
         CASE WHEN holding.state LIKE 'idle%' \
             THEN (extract(epoch FROM clock_timestamp() - holding.state_change) * 1000000)::bigint END, \
         CASE WHEN held.broken IS NOT NULL \
             THEN (extract(epoch FROM clock_timestamp() - held.updated) * 1000000)::bigint END)) END";

const SINCE: &str = "CASE WHEN held.broken IS NULL \
                     THEN (extract(epoch FROM held.updated) * 1000000)::bigint END";

const FREE: &str = "SELECT current_setting('max_connections')::bigint \
                    - current_setting('superuser_reserved_connections')::bigint \
                    - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
