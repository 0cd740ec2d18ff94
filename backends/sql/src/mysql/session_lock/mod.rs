//! The modes `session` (a hold is a `GET_LOCK`) and `row` (a row locked by `SELECT … FOR UPDATE` in
//! an open transaction). Only `row` supports readers, by `LOCK IN SHARE MODE`.
//!
//! # The lock of a name
//!
//! The mode `session` locks the name itself if it is ASCII, has no capitals, and has at most 64
//! characters. Otherwise it locks the name's SHA-256, because MySQL limits the length of lock names
//! and ignores their case:
//!
//! ```sql
//! SELECT GET_LOCK('orders/42', 10);
//! SELECT GET_LOCK(SHA2('Orders/42', 256), 10);
//! ```
//!
//! A `GET_LOCK` applies to the whole server. The mode `row` locks the name's row of
//! `lockwright_row`.
//!
//! # The barrier of a name
//!
//! A writer that waits for readers has two named locks: ` lockwright/waits/…`, which a new
//! reader must find free, and ` lockwright/barrier/…`, on which new readers wait.
//!
//! # The mark of a session
//!
//! A session that holds or waits for a claim has a mark, by which other clients find it: the named
//! lock ` lockwright/TOKEN/HASH`. HASH is 16 digits of the name's SHA-256. A joint session also has
//! the named lock ` lockwright/joint/ID`, with its own id. All these lock names begin with a space,
//! unlike those of users' locks.

mod connection;
mod watch;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::backend_util::finding;
use lockwright_core::{Fault, Finding, LockName, Profile, Result, async_trait};
use sha2::{Digest, Sha256};

use super::dialect::{MySql, push_hex};
use super::facts::Facts;
use super::proxy;
use crate::kind::READERS;
use crate::queries::files;
use crate::server::errors::not_connected_in;
use crate::server::session_lock::{Kind, Permit, Server, Sessions};
use crate::server::{Dialect, Effect, Pool, doctor, session_lock};

use connection::MySqlSession;
use watch::Watch;

/// The longest `wait_timeout` on Windows, where the limit is lowest.
const LONGEST_TTL: Duration = Duration::from_secs(2_147_483);

/// SQL for a session's mark. It has the name's hash, because a token may lock several names.
const MARK: &str = "CONCAT(' lockwright/', TOKEN, '/', LEFT(SHA2(NAME, 256), 16))";

const STILL_READ: &str = "{hold}.token = '{readers}' AND EXISTS ( \
     SELECT 1 FROM {reader} AS other \
     WHERE other.kind = '{kind}' AND other.name = :name AND other.fence = {hold}.fence \
       AND IS_USED_LOCK({mark_of_other}) = other.session)";

/// The pauses in seconds while a killed session ends, and while a joint session's client releases.
const KILLED: [f32; 9] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 1.0];
const ASKED: [f32; 5] = [0.05, 0.1, 0.2, 0.25, 0.45];

const JOINT: &str = "' lockwright/joint/'";

pub(crate) struct Own {
    watch: Arc<Watch>,
}

#[async_trait]
impl Server for MySql {
    type Session = MySqlSession;
    type Own = Own;

    const QUERIES: &'static str =
        files!("acquire", "end", "inspect", "record", "release", "renew", "sweep");
    const BETWEEN: &'static str = "proxy";

    /// One second because the server counts idle time in whole seconds, and one because [`LEFT`]
    /// subtracts a second on MySQL.
    const TIME_LEFT_TOO_LONG_BY: Duration = Duration::from_secs(2);

    const HIDES_YOUNG_ROWS: bool = true;

    fn profile(kind: Kind) -> Profile {
        let (backend, shared) = match kind {
            Kind::Session => ("mysql-session", false),
            Kind::Row => ("mysql-row", true),
        };
        let survives = [Fault::ClientCrash, Fault::ServerClockStep];
        session_lock::profile(backend, shared, &survives, Duration::from_secs(1)..=LONGEST_TTL)
    }

    fn expand_for(&self, kind: Kind, text: &str) -> String {
        let mark = |name: &str, token: &str| MARK.replace("NAME", name).replace("TOKEN", token);
        let text = text
            .replace("{wait_for_mark}", &wait_for_end("{mark}", &KILLED))
            .replace("{wait_for_key}", &wait_for_end("{key}", &KILLED))
            .replace("{wait_for_answer}", &wait_for_end("{mark}", &ASKED))
            .replace("{overwritten}", &overwritten())
            .replace("{still_read}", STILL_READ)
            .replace("{kind}", kind.word())
            .replace("{readers}", READERS)
            .replace("{waits}", &of_barrier("waits"))
            .replace("{barrier}", &of_barrier("barrier"))
            .replace("{mark_of_other}", &mark("other.name", "other.token"))
            .replace("{mark_of_reader}", &mark("name", "token"))
            .replace("{key}", &key(":name"))
            .replace("{key_of_held}", &key("held.name"))
            .replace("{mark}", &mark(":name", ":token"))
            .replace("{mark_of_row}", "CONCAT(' lockwright/row/', LEFT(SHA2(:name, 256), 16))")
            .replace("{mark_of_held}", &mark("held.name", "held.token"))
            .replace("{joint}", JOINT)
            .replace("{left}", LEFT)
            .replace("{since}", SINCE);
        self.expand(&text)
    }

    fn own(pool: &Arc<Pool<Self>>) -> Own {
        Own { watch: Arc::new(Watch::new(pool)) }
    }

    async fn open_session(
        sessions: &Arc<Sessions<Self>>,
        permit: Permit<Self>,
    ) -> Result<MySqlSession> {
        MySqlSession::connect(sessions, permit).await
    }

    async fn doctor(sessions: &Arc<Sessions<Self>>) -> Result<Vec<Finding>> {
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
        // Behind a proxy, ending a test session could end another client's session.
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
}

pub(super) async fn check(sessions: &Arc<Sessions<MySql>>) -> Result<()> {
    let pool = &sessions.pool;
    match proxy::shares_sessions(pool).await? {
        Some(false) => {
            pool.dialect().set_direct();
            Ok(())
        }
        Some(true) => Err(sessions.sessions_are_shared()),
        None => Err(not_connected_in(pool.limits().connect, pool.dialect().backend())),
    }
}

/// Returns SQL that overwrites a record, if an earlier assignment has set `updated`.
fn overwritten() -> String {
    let set = |column| {
        format!(
            "{column} = IF({{hold}}.updated = VALUES(updated), VALUES({column}), {{hold}}.{column})"
        )
    };
    ["token", "identity", "ttl_ms", "session", "released"].map(set).join(", ")
}

fn of_barrier(what: &str) -> String {
    format!(
        "CONCAT(' lockwright/{what}/', \
         LEFT(SHA2(CONCAT_WS('/', {{schema}}, '{{row}}', :name), 256), 16))"
    )
}

fn wait_for_end(lock: &str, pauses: &[f32]) -> String {
    let wait = |pause| format!("DO SLEEP(IF(IS_USED_LOCK({lock}) <=> :session, {pause}, 0))");
    pauses.iter().map(wait).collect::<Vec<_>>().join("; ")
}

/// Returns SQL for the argument of `GET_LOCK`. An ASCII name has as many bytes as characters.
fn key(name: &str) -> String {
    const KEY: &str = "IF(LENGTH(NAME) <= 64 AND LENGTH(NAME) = CHAR_LENGTH(NAME) \
                       AND CAST(NAME AS BINARY) = CAST(LOWER(NAME) AS BINARY), \
                       NAME, SHA2(NAME, 256))";
    KEY.replace("NAME", name)
}

/// SQL for a hold's remaining time in µs, as on PostgreSQL. MySQL counts a started second of idle
/// time as a whole one, hence the subtraction.
const LEFT: &str = "CASE WHEN activity.id IS NULL THEN NULL ELSE \
     GREATEST(0, CAST(held.ttl_ms AS SIGNED) * 1000 - GREATEST(0, \
         IF(activity.command = 'Sleep', GREATEST(0, activity.time /*!80000 - 1 */) * 1000000, 0), \
         IF(held.broken IS NULL, 0, CAST({now} AS SIGNED) - CAST(held.updated AS SIGNED)))) END";

const SINCE: &str = "IF(held.broken IS NULL, CAST(held.updated AS SIGNED), NULL)";

fn key_of(name: &LockName) -> Cow<'_, str> {
    let name = name.as_str();
    let is_plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if name.len() <= 64 && name.bytes().all(is_plain) {
        Cow::Borrowed(name)
    } else {
        let mut key = String::new();
        push_hex(&Sha256::digest(name), &mut key);
        Cow::Owned(key)
    }
}

fn mark_of(name: &LockName, token: &str) -> String {
    let mut mark = format!(" lockwright/{token}/");
    push_hex(&Sha256::digest(name.as_str())[..8], &mut mark);
    mark
}
