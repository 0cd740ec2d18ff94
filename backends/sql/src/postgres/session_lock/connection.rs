//! A connection that carries a hold. It is a [`PgListener`], which detects the connection's end,
//! because it reads between statements too. Its `try_recv` is cancel-safe. Only joint sessions
//! listen to a channel.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lockwright_core::{Claim, ErrorKind, Fence, Mode, Result, async_trait};
use sqlx::Acquire;
use sqlx::postgres::{PgConnection, PgListener, PgPool};
use tokio::time::{timeout, timeout_at};

use super::{JOINT, OWN, key_of, key_of_claim};
use crate::postgres::dialect::{
    DEADLOCK, LOCK_NOT_AVAILABLE, Postgresql, code, fetch_on, fetch_prepared,
};
use crate::server::abandoned::CLOSING;
use crate::server::hold_row::millis_up;
use crate::server::session_lock::joint_session::statement_limit;
use crate::server::session_lock::{
    Ended, Grant, KEPT_TIMEOUTS, Kept, Kind, Locked, Permit, Session, SessionId, Sessions,
};
use crate::server::sql::value;
use crate::server::{Arguments, Dialect, Pool, Prepared, Row, Use, Value, errors};

const CLOSE_LIMIT: Duration = Duration::from_secs(2);

const IDLE_MS: i64 = 60_000;

const LET_GO: &str = "SELECT set_config('idle_session_timeout', '60s', false), \
                      set_config('idle_in_transaction_session_timeout', '60s', false), \
                      pg_advisory_unlock_all()::text";

pub(crate) struct PgSession {
    listener: PgListener,
    /// The listener's pool, which has no other connection.
    pool: PgPool,
    common: Arc<Sessions<Postgresql>>,
    id: SessionId,
    /// True after the connection has failed. Then nothing more is sent: the listener would
    /// reconnect to a new session, without the hold.
    over: bool,
    /// True if the barrier or the claim's lock may still be held.
    must_let_go: bool,
    /// True after an unsuccessful wait, until all locks are released.
    has_waited: bool,
    is_last: bool,
    is_joint: bool,
    /// The session's `idle_session_timeout` in ms, if known. For the mode `session`.
    timeout_ms: Option<i64>,
    has_prepared: bool,
    /// Last, to be dropped after the connection.
    permit: Permit<Postgresql>,
}

impl PgSession {
    pub(super) async fn connect(
        common: &Arc<Sessions<Postgresql>>,
        permit: Permit<Postgresql>,
    ) -> Result<Self> {
        let (dialect, limit) = (common.pool.dialect(), common.pool.limits().connect);
        let begun = Instant::now();
        let (weak_pool, shared) = (Arc::downgrade(&common.pool), common.pool.shared_dialect());
        let opening = async move {
            // A long limit, so even an abandoned opening gets its session's id.
            let pool = shared.single_connection_pool(Duration::from_secs(3_600)).await?;
            let mut listener = tokio::select! {
                biased;
                listener = PgListener::connect_with(&pool) => listener,
                error = connect_error(&weak_pool) => {
                    // Gives the server time to end the dropped attempt's session.
                    tokio::time::sleep(CLOSING).await;
                    Err(error)
                }
            }?;
            listener.eager_reconnect(false);
            listener.ignore_pool_close_event(true);
            let row = set_up(&mut listener, &shared).await?;
            let id = row.int(0).unwrap_or_default();
            let session = Postgresql::session(&row, begun).ok().flatten();
            Ok(((listener, pool, id), session))
        };
        let deadline = (begun + limit).into();
        let too_late = |_| errors::not_connected_in(limit, dialect.backend());
        let opened = timeout_at(deadline, permit.open_unlimited(opening)).await;
        let opened = opened.map_err(too_late)?.map_err(|error| match code(&error).as_deref() {
            Some(UNDEFINED_OBJECT) => {
                let message = "this mode needs PostgreSQL 14 or later, which can end idle \
                               sessions; use the mode lease";
                common.pool.error(ErrorKind::Unsupported, message).with_source(error)
            }
            _ => errors::not_connected(&error, dialect),
        });
        let ((listener, pool, id), _, permit) = opened?;
        let mut session = Self {
            listener,
            pool,
            common: Arc::clone(common),
            id,
            over: false,
            must_let_go: false,
            has_waited: false,
            is_last: false,
            is_joint: false,
            timeout_ms: Some(IDLE_MS),
            has_prepared: false,
            permit,
        };
        // Raising the fences may wait for a locked table. After a timeout, the permit ends the
        // session.
        timeout_at(deadline, session.raise_fences()).await.map_err(too_late)??;
        Ok(session)
    }

    async fn raise_fences(&mut self) -> Result<()> {
        let render = |name| self.common.sql(Mode::Exclusive, name).render(&[], Postgresql::literal);
        let (must_raise, raise) = (render("must_raise"), render("raise"));
        if is_true(&self.run_or_fail(must_raise).await?, 0) {
            self.run_or_fail(raise).await?;
        }
        if self.common.own.checks_clients.load(Ordering::Relaxed) {
            // Without this setting, a killed client's session stays in the server's queue.
            let set = "SET client_connection_check_interval = '1s'".to_owned();
            match self.run(set).await {
                Ok(_) => {}
                Err(sqlx::Error::Database(_)) => {
                    self.common.own.checks_clients.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(self.common.failed(error)),
            }
        }
        Ok(())
    }

    async fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        match self.over {
            true => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())),
            false => (&mut self.listener).acquire().await,
        }
    }

    pub(super) async fn run(&mut self, text: String) -> sqlx::Result<Vec<Row>> {
        let result = async { fetch_on(self.connection().await?, text).await }.await;
        self.check_end(result)
    }

    async fn run_or_fail(&mut self, text: String) -> Result<Vec<Row>> {
        self.run(text).await.map_err(|error| self.common.failed(error))
    }

    fn check_end(&mut self, result: sqlx::Result<Vec<Row>>) -> sqlx::Result<Vec<Row>> {
        self.over |= result.as_ref().is_err_and(|error| is_the_end(code(error).as_deref()));
        result
    }

    async fn about(
        &mut self,
        which: &str,
        claim: &Claim,
        more: Arguments<'_>,
    ) -> sqlx::Result<Vec<Row>> {
        let common = Arc::clone(&self.common);
        let sql = common.sql(claim.mode, which);
        let (token, key) = (claim.token.to_string(), key_of(&claim.name));
        let mut arguments = vec![
            ("name", Value::Text(claim.name.as_str())),
            ("token", Value::Text(&token)),
            ("key", Value::Int(key)),
            ("claim", Value::Int(key_of_claim(&token, &claim.name))),
        ];
        arguments.extend_from_slice(more);
        let is_row = common.kind == Kind::Row;
        let is_executed = is_row && claim.mode == Mode::Exclusive && matches!(which, TRY | WAIT);
        // The settings and locks of an executed wait end with its transaction, others' with the
        // session.
        let waits = matches!(which, WAIT | WAIT_FOR_READERS);
        self.must_let_go |= waits && !is_executed;
        let mut text = match sql.prepared() {
            Some(statement) if !is_row => {
                let result =
                    async { fetch_prepared(self.connection().await?, statement, &arguments).await };
                let result = result.await;
                return self.check_end(result);
            }
            // The driver can't send its own prepared statements together with `BEGIN`.
            Some(statement) if is_executed => execute(which, statement, &arguments),
            _ => sql.render(&arguments, Postgresql::literal),
        };
        if is_executed || (is_row && which == TRY) {
            text.insert_str(0, "BEGIN; ");
        }
        let is_last_miss = which == MISSED && (self.is_last || claim.mode == Mode::Shared);
        if is_last_miss || (is_row && which == UNLOCK && self.must_let_go) {
            text = format!("{text}; {LET_GO}");
        }
        if !is_executed || self.has_prepared {
            let rows = self.run(text).await?;
            if is_last_miss {
                self.has_let_go();
            }
            return Ok(rows);
        }
        let rows = self.run(self.prepare() + &text).await;
        self.has_prepared = rows.is_ok();
        if rows.is_err() {
            // The failed request may have prepared the statements.
            let _ = self.run("ROLLBACK; DEALLOCATE ALL".to_owned()).await;
        }
        rows
    }

    fn has_let_go(&mut self) {
        (self.must_let_go, self.has_waited) = (false, false);
        self.timeout_ms = Some(IDLE_MS);
    }

    fn prepare(&self) -> String {
        let prepare = |name| {
            let sql = self.common.sql(Mode::Exclusive, name);
            let Some(statement) = sql.prepared() else { return String::new() };
            let type_of = |name: &String| if name == "name" { "text" } else { "bigint" };
            let types = statement.parameters.iter().map(type_of).collect::<Vec<_>>().join(", ");
            format!("PREPARE lockwright_{name} ({types}) AS {}; ", statement.text)
        };
        let (attempt, wait) = (prepare(TRY), prepare(WAIT));
        // `PREPARE` has its own transaction, because the hold's would keep its table locks.
        format!("BEGIN; {attempt}{wait}COMMIT; ")
    }

    /// Locks the name's row, which it creates if missing. Rolls back a failed attempt.
    async fn lock_row(
        &mut self,
        claim: &Claim,
        mut which: &'static str,
        arguments: Arguments<'_>,
    ) -> sqlx::Result<Locked> {
        const TRIES: u32 = 5;
        for _ in 0..TRIES {
            // These waits have several statements, and the fifth row is the grant's.
            let has_steps =
                which == WAIT_FOR_READERS || which == WAIT && claim.mode == Mode::Shared;
            let mut is_timed_out = false;
            match self.about(which, claim, arguments).await {
                Ok(rows) => {
                    if let Some(row) = rows.get(if has_steps { 4 } else { 0 }) {
                        return Ok(Locked::Yes(Grant {
                            fence: row.fence(0).ok(),
                            is_recorded_later: claim.mode == Mode::Exclusive,
                            waited: measured_wait(row, 1),
                        }));
                    }
                }
                Err(error) if is_in_vain(&error) => is_timed_out = true,
                Err(error) => return Err(error),
            }
            let rows = self.about(MISSED, claim, &[]).await?;
            let (same_token, exists) = (is_true(&rows, 0), is_true(&rows, 1));
            if !exists {
                self.about("make", claim, &[]).await?;
            } else if which == WAIT && !has_steps && !is_timed_out && !same_token {
                which = WAIT_FOR_READERS;
            } else {
                return Ok(Locked::No { same_token });
            }
        }
        Ok(Locked::No { same_token: false })
    }

    async fn lock_key(
        &mut self,
        claim: &Claim,
        mut which: &'static str,
        ttl_ms: i64,
        arguments: Arguments<'_>,
    ) -> sqlx::Result<Locked> {
        if which == WAIT && claim.mode == Mode::Exclusive && self.timeout_ms != Some(ttl_ms) {
            self.run(format!("SET idle_session_timeout = {ttl_ms}")).await?;
            self.timeout_ms = Some(ttl_ms);
        }
        // If the attempt is one statement, its error undoes its change of the idle timeout.
        let is_one_statement = match which {
            TRY => true,
            WAIT => claim.mode == Mode::Exclusive,
            _ => false,
        };
        let mut before = self.timeout_ms.take().filter(|_| is_one_statement);
        loop {
            let rows = match self.about(which, claim, arguments).await {
                Ok(rows) => rows,
                Err(error) if is_in_vain(&error) => {
                    // The server may have granted the lock just before the timeout, so `missed`
                    // releases it.
                    let missed = if self.is_joint { PART } else { MISSED };
                    self.must_let_go = true;
                    self.has_waited = which != TRY;
                    let rows = self.about(missed, claim, &[]).await?;
                    let same_token = !self.is_joint && is_true(&rows, 0);
                    self.timeout_ms = self.timeout_ms.or(before);
                    return Ok(Locked::No { same_token });
                }
                Err(error) => return Err(error),
            };
            let row = rows.last().ok_or(sqlx::Error::RowNotFound)?;
            match row.text(0).ok().flatten() {
                Some("readers") => (which, before) = (WAIT_FOR_READERS, None),
                Some(no @ ("same" | "busy")) => {
                    self.timeout_ms = before;
                    return Ok(Locked::No { same_token: no == "same" });
                }
                fence => {
                    let fence = fence.and_then(|fence| fence.parse().ok());
                    self.timeout_ms = Some(ttl_ms);
                    return Ok(Locked::Yes(Grant {
                        fence: Some(Fence::new(fence.ok_or(sqlx::Error::RowNotFound)?)),
                        is_recorded_later: claim.mode == Mode::Exclusive,
                        waited: if which == TRY { None } else { measured_wait(row, 1) },
                    }));
                }
            }
        }
    }
}

const TRY: &str = "try";
const WAIT: &str = "wait";
const WAIT_FOR_READERS: &str = "wait_for_readers";
const MISSED: &str = "missed";
const UNLOCK: &str = "unlock";
const PART: &str = "part";

#[async_trait]
impl Session for PgSession {
    fn id(&self) -> SessionId {
        self.id
    }

    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked> {
        // After an unsuccessful wait, the barrier stays closed.
        let continues =
            self.has_waited && self.common.kind == Kind::Session && claim.mode == Mode::Exclusive;
        let which = match slice {
            None => TRY,
            Some(_) if continues => WAIT_FOR_READERS,
            Some(_) => WAIT,
        };
        let ttl_ms = millis_up(claim.ttl);
        let is_set = self.is_joint || self.timeout_ms == Some(ttl_ms);
        let slice_ms = millis_up(slice.unwrap_or_default()).max(1);
        let arguments = [
            ("ttl_ms", Value::Int(ttl_ms)),
            ("new_ttl_ms", Value::Int(if is_set { 0 } else { ttl_ms })),
            ("slice_ms", Value::Int(slice_ms)),
        ];
        self.is_last = last;
        let locked = match self.common.kind {
            Kind::Session => self.lock_key(claim, which, ttl_ms, &arguments).await,
            Kind::Row => self.lock_row(claim, which, &arguments).await,
        };
        locked.map_err(|error| self.common.failed(error))
    }

    async fn join(&mut self, ttl: Duration) -> Result<()> {
        self.is_joint = true;
        let (ttl, limit, id) = (millis_up(ttl), millis_up(statement_limit(ttl)), self.id);
        let text = format!(
            "SET application_name = '{JOINT}'; SET idle_session_timeout = {ttl}; \
             SET statement_timeout = {limit}; SET lock_timeout = {limit}; LISTEN lockwright_{id}"
        );
        self.run_or_fail(text).await.map(drop)
    }

    async fn keep(&mut self, claims: &[Claim]) -> Result<Vec<Kept>> {
        let keep = |claim: &Claim| {
            let token = claim.token.to_string();
            let arguments =
                [("name", Value::Text(claim.name.as_str())), ("token", Value::Text(&token))];
            self.common.sql(claim.mode, "keep").render(&arguments, Postgresql::literal)
        };
        let keeps = claims.iter().map(keep).collect::<Vec<_>>().join(" UNION ALL ");
        // A renewal waits while the table of records is locked, and a release waits for the
        // renewal.
        let limit_of = |claim: &Claim| match self.is_joint {
            true => statement_limit(claim.ttl),
            false => claim.ttl / 4,
        };
        let limit = claims.iter().map(limit_of).min().map(millis_up).unwrap_or_default();
        let text = format!("SELECT set_config('statement_timeout', '{limit}', true); {keeps}");
        let (text, undo) = match self.common.kind {
            Kind::Session => (text, ""),
            // The rollback to the savepoint after a failed renewal keeps the older row lock of the
            // hold.
            Kind::Row => (
                format!("SAVEPOINT lockwright; {text}; RELEASE SAVEPOINT lockwright"),
                "ROLLBACK TO SAVEPOINT lockwright; RELEASE SAVEPOINT lockwright",
            ),
        };
        let rows = match self.run(text).await {
            Ok(rows) => rows,
            Err(error) if !is_the_end(code(&error).as_deref()) => {
                let undone = self.run_or_fail(undo.to_owned()).await;
                return undone.map(|_| vec![Kept::Unsure; claims.len()]);
            }
            Err(error) => return Err(self.common.failed(error)),
        };
        let rows = rows.get(1..).unwrap_or_default();
        let kept = self.common.kept(rows, claims.len(), self.id);
        self.over |= kept.is_err();
        kept
    }

    async fn shorten(&mut self, to: Duration) -> Result<()> {
        // Zero would disable the timeout.
        let ttl_ms = [("ttl_ms", Value::Int(millis_up(to).max(1)))];
        let shorten = self.common.sql(Mode::Exclusive, "shorten");
        let text = shorten.render(&ttl_ms, Postgresql::literal);
        self.timeout_ms = None;
        self.run_or_fail(text).await.map(drop)
    }

    async fn leave(&mut self) -> Result<()> {
        if self.must_let_go {
            self.run_or_fail(LET_GO.to_owned()).await?;
            self.has_let_go();
        }
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        let which = if self.is_joint { PART } else { UNLOCK };
        let may_keep = |ms: &i64| KEPT_TIMEOUTS.contains(&Duration::from_millis(ms.unsigned_abs()));
        let kept = self.timeout_ms.filter(|ms| may_keep(ms) && claim.mode != Mode::Shared);
        let is_reset = [("is_reset", Value::Bool(kept.is_none()))];
        let rows = self.about(which, claim, &is_reset).await.map_err(|e| self.common.failed(e))?;
        (self.must_let_go, self.has_waited) = (false, false);
        self.timeout_ms = Some(kept.unwrap_or(IDLE_MS));
        let was_locked = || rows.last().is_some_and(|row| row.bool(0).unwrap_or(false));
        Ok(self.common.kind == Kind::Row || was_locked())
    }

    async fn ended(&mut self) -> Ended {
        while !self.over {
            match self.listener.try_recv().await {
                Ok(Some(_)) if self.is_joint => return Ended::Asked,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => self.over = true,
            }
        }
        Ended::Session
    }

    async fn close(self) {
        let Self { listener, pool, permit, .. } = self;
        // The dropped listener returns its connection, which `pool.close` then closes.
        drop(listener);
        let _ = tokio::time::timeout(CLOSE_LIMIT, pool.close()).await;
        drop(permit);
    }
}

async fn set_up(listener: &mut PgListener, dialect: &Postgresql) -> sqlx::Result<Row> {
    // - The idle timeouts end the session of a suspended process, even if it has no hold.
    // - `synchronous_commit = off`: a crash ends all holds, and the next client raises the fences.
    // - `lock_timeout` limits waits for operators' locks on the tables and the sequence.
    // - `read committed`: a hold's transaction sees later commits, such as a break.
    let mut text = format!(
        "SET application_name = '{OWN}'; SET statement_timeout = 0; SET lock_timeout = '5s'; \
         SET idle_session_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'; \
         SET synchronous_commit = off; SET default_transaction_isolation = 'read committed';"
    );
    let connection = listener.acquire().await?;
    if connection.server_version_num().unwrap_or_default() >= 170_000 {
        text.push_str(" SET transaction_timeout = 0;");
    }
    text.push_str(" SELECT ");
    text.push_str(&dialect.identity());
    fetch_on(connection, text).await?.pop().ok_or(sqlx::Error::RowNotFound)
}

/// Connects without sqlx's pool until an attempt fails, and returns the error. The pool hides
/// errors: it retries while no server answers or the server has too many clients.
async fn connect_error(pool: &Weak<Pool<Postgresql>>) -> sqlx::Error {
    const PAUSE: Duration = Duration::from_millis(200);

    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(pool) = pool.upgrade() else { return sqlx::Error::PoolClosed };
        // The modes `session` and `row` have no listener, so its permit is free.
        let Some(permit) = Permit::try_get(&pool, Use::Listen) else { continue };
        let limit = pool.limits().connect;
        drop(pool);
        if let Ok(Err(error)) = timeout(limit, permit.connect()).await {
            return error;
        }
    }
}

const QUERY_CANCELED: &str = "57014";
const UNDEFINED_OBJECT: &str = "42704";

fn is_true(rows: &[Row], at: usize) -> bool {
    rows.first().is_some_and(|row| row.bool(at).unwrap_or(false))
}

fn measured_wait(row: &Row, at: usize) -> Option<Duration> {
    row.int(at).ok().and_then(|us| u64::try_from(us).ok()).map(Duration::from_micros)
}

fn execute(name: &str, statement: &Prepared, arguments: Arguments<'_>) -> String {
    let mut text = format!("EXECUTE lockwright_{name} (");
    for (at, name) in statement.parameters.iter().enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        Postgresql::literal(value(arguments, name), &mut text);
    }
    text.push(')');
    text
}

fn is_in_vain(error: &sqlx::Error) -> bool {
    matches!(code(error).as_deref(), Some(LOCK_NOT_AVAILABLE | QUERY_CANCELED | DEADLOCK))
}

/// Returns whether an error ends the session: classes 57P (an operator, an idle timeout, a
/// shutdown) and 08 (the connection), timeouts of a transaction, internal errors, and errors
/// without a code.
fn is_the_end(code: Option<&str>) -> bool {
    code.is_none_or(|code| {
        code.starts_with("57P")
            || code.starts_with("08")
            || matches!(code, "25P03" | "25P04" | "XX000")
    })
}
