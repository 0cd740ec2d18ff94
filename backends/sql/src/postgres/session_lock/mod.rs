//! The modes `session` and `row`. A hold is an advisory lock, or a row locked by `SELECT … FOR
//! UPDATE` in an open transaction. Readers use `pg_advisory_lock_shared`, or `FOR SHARE`.
//!
//! # The key of a name
//!
//! The mode `session` locks the name's [key](super::transaction#the-key-of-a-name). The mode `row`
//! locks the name's row of `lockwright_row`.
//!
//! # The barrier of a name
//!
//! A writer that waits for readers has the name's barrier, an advisory lock on two 32-bit keys from
//! later digits of the SHA-256. The modes use different digits. Readers need a free barrier.
//!
//! # The key of a claim
//!
//! A session that holds or waits for a claim also has the claim's advisory lock. Its key is the
//! first 64 bits of the SHA-256 of the token and the name. Only one session at a time has the lock,
//! and other clients find the session by it. `application_name` is `lockwright/joint` in a joint
//! session, which has several holds, and `lockwright/own` in others.

mod doctor;
mod probe;
mod session;
mod statements;

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::{Fault, Finding, LockName, Profile, Result, async_trait};

use sha2::{Digest, Sha256};

use super::dialect::Postgresql;
use crate::kind::READERS;
use crate::server::dialect::Dialect;
use crate::server::pool::Pool;
use crate::server::session_lock::records::{Records, StatementTexts, statement_texts};
use crate::server::session_lock::{self, Permit, Server};
use crate::server::table::Tables;

use session::PgSession;
use statements::Statements;

/// PostgreSQL's longest idle timeout, 2^31 - 1 ms, in whole minutes.
const LONGEST_TTL: Duration = Duration::from_secs(35_791 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Row,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Row => "row",
        }
    }

    pub(super) fn profile(self) -> &'static Profile {
        static SESSION: LazyLock<Profile> = LazyLock::new(|| profile("postgres-session"));
        static ROW: LazyLock<Profile> = LazyLock::new(|| profile("postgres-row"));
        match self {
            Self::Session => &SESSION,
            Self::Row => &ROW,
        }
    }

    fn expand(self, tables: &Tables, text: &str) -> String {
        let text = text
            .replace("{overwritten}", OVERWRITTEN)
            .replace("{close_barrier}", CLOSE_BARRIER)
            .replace("{has_readers}", HAS_READERS)
            .replace("{last_is_reading}", &self.reads("held.session", "held.identity"))
            .replace("{other_is_reading}", &self.reads("other.session", "other.token"))
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
            .replace("{now}", Postgresql::NOW)
            .replace("{kind}", self.word())
            .replace("{readers}", READERS)
            .replace("{barrier}", &self.barrier())
            .replace("{barrier_as_one}", &once(&key_from(":name", self.barrier_at())))
            .replace("{key}", &once(&key_from(":name", 1)))
            .replace("{key_of_held}", &key_from("held.name", 1))
            .replace("{left}", LEFT);
        tables.expand(&text, '"')
    }

    /// Returns SQL for whether a recorded reader still reads. The SQL refers to the row `held`, so
    /// PostgreSQL evaluates it after locking that row. The claim's lock alone isn't enough, because
    /// the name's lock (mode `session`) or the transaction (mode `row`) may end earlier.
    fn reads(self, session: &str, token: &str) -> String {
        let has_key = "{is_advisory} AND locks.objsubid = 1 AND {lock_key}";
        let lock = match self {
            Self::Session => format!("{has_key} = {{key_of_held}}"),
            Self::Row => "locks.locktype = 'transactionid'".to_owned(),
        };
        let claim = claim_of("held.name", token);
        format!(
            "(SELECT bool_or({has_key} = {claim}) AND bool_or({lock}) FROM pg_locks AS locks \
              WHERE locks.pid = {session} AND locks.granted)"
        )
    }

    /// Returns the position of the barrier's keys in the hex digits of the SHA-256.
    fn barrier_at(self) -> usize {
        match self {
            Self::Session => 17,
            Self::Row => 33,
        }
    }

    fn barrier(self) -> String {
        let half = |at| format!("('x' || {})::bit(32)::int", digits_from(":name", at, 8));
        format!("{}, {}", half(self.barrier_at()), half(self.barrier_at() + 8))
    }

    fn texts(self) -> StatementTexts {
        statement_texts!(self == Self::Session)
    }
}

fn digits_from(name: &str, at: usize, count: usize) -> String {
    format!("substr(encode(sha256(convert_to({name}, 'UTF8')), 'hex'), {at}, {count})")
}

fn key_from(name: &str, at: usize) -> String {
    format!("('x' || {})::bit(64)::bigint", digits_from(name, at, 16))
}

/// Returns SQL for the key of a claim's advisory lock.
fn claim_of(name: &str, token: &str) -> String {
    key_from(&format!("{token} || {name}"), 1)
}

/// Returns SQL for a value that the server computes once for all rows.
fn once(value: &str) -> String {
    format!("(SELECT {value})")
}

/// Returns SQL for the key of the claim in the row `held`, or NULL if the row is for readers.
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

/// SQL for whether the sequence of fences must be raised: see `raise` in record.sql.
const MUST_RAISE: &str = "(NOT EXISTS (SELECT FROM {hold_raised}) \
     OR (SELECT last_value FROM {hold_fence}) < {now} - 60000000)";

/// SQL for whether the last recorded holders of the name are readers.
const HAS_READERS: &str = "EXISTS (SELECT FROM {hold} \
     WHERE kind = '{kind}' AND name = :name AND token = '{readers}')";

/// SQL that closes the barrier before a writer waits for readers, unless this or another writer has
/// closed it. Readers lock the barrier only for a moment, so the writer gets it soon.
const CLOSE_BARRIER: &str = "CASE WHEN {has_readers} \
     AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted \
         AND (pid = pg_backend_pid() OR mode = 'ExclusiveLock' \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             AND (classid::bigint << 32) | objid::bigint = {barrier_as_one})) \
     THEN pg_advisory_lock({barrier})::text END";

/// SQL that overwrites a record with a new holder's, except for its fence, which readers share.
const OVERWRITTEN: &str = "token = excluded.token, identity = excluded.identity, \
     ttl_ms = excluded.ttl_ms, session = excluded.session, updated = excluded.updated, \
     broken = CASE WHEN held.token = excluded.token THEN held.broken END, released = false";

/// SQL for the time in µs since the server received the statement.
const WAITED_US: &str =
    "(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000)::bigint";

/// The `application_name` of a session for one hold at a time.
const OWN: &str = "lockwright/own";

const JOINT: &str = "lockwright/joint";

/// SQL for whether the row `locks` of `pg_locks` is an advisory lock in this database.
const IS_ADVISORY: &str = "locks.locktype = 'advisory' AND {in_this_database}";

const IN_THIS_DATABASE: &str =
    "locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

const LOCK_KEY: &str = "((locks.classid::bigint << 32) | locks.objid::bigint)";

/// SQL for whether the row `locks` is a claim's lock that a session has or awaits.
const IS_CLAIM_LOCK: &str = "{is_advisory} AND locks.objsubid = 1 AND {lock_key} = {claim}";

/// SQL for the records of holds, which may have ended.
const RECORDS: &str = "\
     SELECT name, token, identity, fence, ttl_ms, session, broken, false AS shared FROM {hold} \
     WHERE kind = '{kind}' \
     UNION ALL \
     SELECT name, token, identity, fence, ttl_ms, session, broken, true FROM {reader} \
     WHERE kind = '{kind}'";

/// SQL for the rest of a wait's time limit, `:slice_ms`, after an earlier statement has waited.
const REST: &str = "greatest(1, least(:slice_ms, :slice_ms - \
     (extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint))::text";

/// SQL for a hold's remaining time in µs, or NULL if the user may not see the session.
const LEFT: &str = "CASE WHEN holding.state IS NULL THEN NULL \
     WHEN holding.state LIKE 'idle%' THEN greatest(0, least(held.ttl_ms * 1000, \
     held.ttl_ms * 1000 - (extract(epoch FROM clock_timestamp() - holding.state_change) * 1000000)::bigint)) \
     ELSE held.ttl_ms * 1000 END";

fn profile(backend: &'static str) -> Profile {
    // A clock step ahead ends holds, because idle timeouts use the wall clock. A hold with a shorter
    // TTL than 200 ms could expire before it is recorded.
    let ttl = Duration::from_millis(200)..=LONGEST_TTL;
    session_lock::profile(backend, true, &[Fault::ClientCrash], ttl)
}

#[derive(Debug)]
pub(super) struct Sessions {
    kind: Kind,
    statements: Arc<Statements>,
    records: Records<Postgresql>,
    /// True if the server can detect dead clients that wait.
    checks_clients: AtomicBool,
}

impl Sessions {
    pub(super) fn new(kind: Kind, pool: Arc<Pool<Postgresql>>) -> Self {
        let dialect = pool.dialect().clone();
        let expand = |text: &str| kind.expand(dialect.tables(), text);
        Self {
            kind,
            statements: Arc::new(Statements::new(kind, dialect.clone(), expand)),
            records: Records::new(pool, &kind.texts(), expand),
            checks_clients: AtomicBool::new(true),
        }
    }

    pub(super) async fn check(&self) -> Result<()> {
        probe::check(self).await
    }

    async fn open(&self, permit: Permit<Postgresql>) -> Result<PgSession> {
        let session = PgSession::connect(
            &self.statements,
            &self.records.pool,
            permit,
            self.checks_clients.load(Ordering::Relaxed),
        )
        .await?;
        if !session.checks_clients() {
            self.checks_clients.store(false, Ordering::Relaxed);
        }
        Ok(session)
    }
}

#[async_trait]
impl Server for Sessions {
    type Session = PgSession;
    type Dialect = Postgresql;

    fn profile(&self) -> &Profile {
        self.kind.profile()
    }

    fn records(&self) -> &Records<Postgresql> {
        &self.records
    }

    async fn connect(&self, permit: Permit<Postgresql>) -> Result<PgSession> {
        self.open(permit).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::findings(self).await
    }
}
