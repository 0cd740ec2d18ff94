use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{Claim, ErrorKind, Mode, Result, async_trait};
use sqlx::Connection;
use sqlx::mysql::MySqlConnection;

use super::watch::{self, Watching};
use super::{JOINT, key_of, mark_of};
use crate::mysql::dialect::{
    DEADLOCK, INTERRUPTED, LOCK_WAIT_TIMEOUT, MySql, fetch_on, fetch_prepared, identity,
    is_the_end, number, session,
};
use crate::server::session_lock::joint_session::statement_limit;
use crate::server::session_lock::{
    Ended, Grant, KEPT_TIMEOUTS, Kept, Kind, Locked, Permit, Session, SessionId, Sessions,
};
use crate::server::{Arguments, Dialect, Effect, Row, Sql, Value, errors};

const CLOSE_LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct MySqlSession {
    connection: MySqlConnection,
    common: Arc<Sessions<MySql>>,
    watching: Option<Watching>,
    id: SessionId,
    over: bool,
    /// The session's `wait_timeout` and `lock_wait_timeout` in seconds, or `None` if the next claim
    /// must set them, after idling or an unsuccessful wait for a row.
    timeouts: Option<(i64, i64)>,
    /// True after the first release. Then a statement sent alone is prepared, and the mode `row`
    /// has `autocommit = 0`.
    prepares: bool,
    /// The session's `innodb_lock_wait_timeout`, once a wait for a row has set it.
    row_limit: Option<i64>,
    has_waited: bool,
    /// True if the wait for a row found readers, and may have left the barrier locked.
    waits_for_readers: bool,
    is_joint: bool,
    /// Last, to be dropped after the connection.
    permit: Permit<MySql>,
}

impl MySqlSession {
    pub(super) async fn connect(
        common: &Arc<Sessions<MySql>>,
        permit: Permit<MySql>,
    ) -> Result<Self> {
        let (dialect, opened) = (common.pool.shared_dialect(), Instant::now());
        let connecting = async move {
            let mut connection = dialect.connect().await?;
            let rows = fetch_on(&mut connection, format!("{SET_UP}; {}", identity())).await?;
            let session = session(rows.last(), opened).ok_or(sqlx::Error::RowNotFound)?;
            Ok(((connection, session.id), Some(session)))
        };
        let ((connection, id), _, permit) = permit.open(connecting).await?;
        let mut this = Self {
            connection,
            common: Arc::clone(common),
            watching: None,
            id,
            over: false,
            timeouts: None,
            prepares: false,
            row_limit: None,
            has_waited: false,
            waits_for_readers: false,
            is_joint: false,
            permit,
        };
        // Raising the fences may block, so it follows `open`: then the permit can end the session.
        let pool = &common.pool;
        let limit = pool.limits().answer;
        match tokio::time::timeout(limit, this.raise_fences()).await {
            Ok(Ok(())) => Ok(this),
            Ok(Err(error)) => Err(common.failed(error)),
            Err(_) => Err(errors::timed_out(Effect::Changes, limit, pool.dialect().backend())),
        }
    }

    async fn raise_fences(&mut self) -> sqlx::Result<()> {
        let raise = self.common.sql(Mode::Exclusive, "raise").render(&[], MySql::literal);
        let rows = self.run(raise).await?;
        let least = rows.last().and_then(|row| row.int(0).ok()).unwrap_or_default();
        if least > 0 {
            let sequence = self.common.pool.dialect().expand("{hold_fence}");
            // `SETVAL` changes nothing if the sequence is already higher.
            self.run(format!("SELECT SETVAL({sequence}, {least})")).await?;
        }
        Ok(())
    }

    pub(super) async fn run(&mut self, text: String) -> sqlx::Result<Vec<Row>> {
        let result = fetch_on(self.open()?, text).await;
        self.check_end(result)
    }

    async fn run_or_fail(&mut self, text: String) -> Result<Vec<Row>> {
        self.run(text).await.map_err(|error| self.common.failed(error))
    }

    async fn run_only(
        &mut self,
        sql: &Sql,
        claim: &Claim,
        more: Arguments<'_>,
    ) -> sqlx::Result<Vec<Row>> {
        let values = values(claim);
        let result = fetch_prepared(self.open()?, sql, &arguments(&values, more)).await;
        self.check_end(result)
    }

    fn open(&mut self) -> sqlx::Result<&mut MySqlConnection> {
        match self.over {
            true => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())),
            false => Ok(&mut self.connection),
        }
    }

    fn check_end(&mut self, result: sqlx::Result<Vec<Row>>) -> sqlx::Result<Vec<Row>> {
        if let Err(error) = &result {
            self.over |= number(error).is_none_or(is_the_end);
        }
        result
    }

    fn text(&self, name: &str, claim: &Claim, more: Arguments<'_>) -> String {
        let sql = self.common.sql(claim.mode, name);
        sql.render(&arguments(&values(claim), more), MySql::literal)
    }

    /// Sends the lock statement. The server counts whole seconds, so `KILL QUERY` ends a shorter
    /// wait.
    async fn send(&mut self, claim: &Claim, slice: Option<Duration>) -> sqlx::Result<Vec<Row>> {
        let common = Arc::clone(&self.common);
        let name = match slice {
            None => "try",
            Some(_) if self.waits_for_readers => "wait_for_readers",
            Some(_) => "wait",
        };
        let sql = common.sql(claim.mode, name);
        let is_row_wait = slice.is_some() && common.kind == Kind::Row;
        let sets_itself = is_row_wait && (claim.mode == Mode::Shared || self.waits_for_readers);
        // A reader may wait for a slice at the barrier, and for another at the row, so `KILL QUERY`
        // ends long waits too.
        let is_cut =
            |slice: &Duration| claim.mode == Mode::Shared || *slice < Duration::from_secs(1);
        let (ttl_s, limit_s) = self.timeouts_for(claim.ttl);
        let whole =
            slice.map_or(0, |slice| i64::try_from(slice.as_secs().max(1)).unwrap_or(i64::MAX));
        let times = [
            ("ttl_s", Value::Int(ttl_s)),
            ("limit_s", Value::Int(limit_s)),
            ("slice_s", Value::Int(whole)),
        ];
        let (same_timeouts, may_keep) =
            (self.timeouts.take() == Some((ttl_s, limit_s)), self.may_keep(ttl_s));
        // Waits aren't prepared, because `inspect` counts waiters by the text of their statements.
        if self.prepares && slice.is_none() && same_timeouts && may_keep {
            return self.run_only(sql, claim, &times).await;
        }
        let mut text = self.text(name, claim, &times);
        let begins_itself = claim.mode == Mode::Shared || sets_itself;
        if common.kind == Kind::Row && !begins_itself && !self.prepares {
            text.insert_str(0, "BEGIN; ");
        }
        if is_row_wait && self.row_limit.replace(whole) != Some(whole) && !sets_itself {
            text.insert_str(0, &format!("SET SESSION innodb_lock_wait_timeout = {whole}; "));
        }
        if !same_timeouts && !sets_itself {
            text.insert_str(0, &set_timeouts(ttl_s, limit_s));
        }
        if common.kind == Kind::Session && !may_keep {
            text.push_str("; ");
            text.push_str(&self.text("restore", claim, &times));
        }
        let Some(slice) = slice.filter(is_cut) else {
            return self.run(text).await;
        };
        let id = self.id;
        let (done, cut) = {
            let mut running = pin!(self.run(text));
            tokio::select! {
                biased;
                done = &mut running => return done,
                () = tokio::time::sleep(slice) => {
                    // Waits for both, because a late `KILL QUERY` could end the next statement.
                    let cut = format!("KILL QUERY {id}");
                    let cut = common.pool.fetch_text(cut, Effect::Changes).await;
                    (running.await, cut)
                }
            }
        };
        match cut {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Indeterminate => {
                tracing::debug!(%error, "the server did not confirm that a wait was cut off");
                self.over = true;
                return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()));
            }
            Err(error) => {
                tracing::debug!(%error, "a wait couldn't be cut off, and lasts for a second");
            }
        }
        done
    }

    fn timeouts_for(&self, ttl: Duration) -> (i64, i64) {
        let limit = if self.is_joint { statement_limit(ttl) } else { ttl / 4 };
        (seconds_up(ttl), seconds_up(limit))
    }

    async fn lock_key(&mut self, claim: &Claim, slice: Option<Duration>) -> sqlx::Result<Locked> {
        match self.send(claim, slice).await {
            Ok(rows) => {
                let locked = match rows.last().and_then(|row| row.int(0).ok()) {
                    None => Locked::No { same_token: false },
                    Some(..0) => Locked::No { same_token: true },
                    Some(0) => Locked::Yes(Grant::default()),
                    Some(_) => Locked::Yes(Grant {
                        fence: rows.last().and_then(|row| row.fence(0).ok()),
                        is_recorded_later: true,
                        waited: None,
                    }),
                };
                let (ttl_s, limit_s) = self.timeouts_for(claim.ttl);
                if matches!(locked, Locked::Yes(_)) || self.may_keep(ttl_s) {
                    self.timeouts = Some((ttl_s, limit_s));
                }
                Ok(locked)
            }
            Err(error) if is_in_vain(&error) => {
                let missed = if self.is_joint { "part" } else { "missed" };
                self.run(self.text(missed, claim, &[])).await?;
                Ok(Locked::No { same_token: false })
            }
            Err(error) => Err(error),
        }
    }

    async fn lock_row(
        &mut self,
        claim: &Claim,
        slice: Option<Duration>,
        last: bool,
    ) -> sqlx::Result<Locked> {
        const TRIES: u32 = 5;
        let waits_on = slice.is_some() && !last && claim.mode == Mode::Exclusive;
        // Named locks outlive the rollback, so a writer keeps its barrier for its next wait.
        let end = if waits_on { "ROLLBACK" } else { LET_GO };
        for _ in 0..TRIES {
            let may_find_readers = slice.is_some() && !self.waits_for_readers;
            match self.send(claim, slice).await {
                Ok(rows) if !rows.is_empty() => {
                    self.timeouts = Some(self.timeouts_for(claim.ttl));
                    let fence = rows[0].fence(1).ok();
                    let is_recorded_later = fence.is_some() && claim.mode == Mode::Exclusive;
                    return Ok(Locked::Yes(Grant { fence, is_recorded_later, waited: None }));
                }
                Ok(_) => {}
                // The interrupted request may not have set `innodb_lock_wait_timeout`.
                Err(error) if is_in_vain(&error) => self.row_limit = None,
                Err(error) => return Err(error),
            }
            let rows = self.run(format!("{}; {end}", self.text("missed", claim, &[]))).await?;
            let is_true = |at| rows.last().and_then(|row| row.bool(at).ok()).unwrap_or(false);
            let (exists, same_token, has_readers) = (is_true(0), is_true(1), is_true(2));
            if exists && has_readers && may_find_readers && claim.mode == Mode::Exclusive {
                self.waits_for_readers = true;
                continue;
            }
            if exists || same_token {
                return Ok(Locked::No { same_token });
            }
            match self.run(self.text("make", claim, &[])).await {
                Ok(_) => {}
                // The failed statement may have left its named lock and a transaction.
                Err(error) if is_in_vain(&error) => {
                    self.run("ROLLBACK; DO RELEASE_ALL_LOCKS()".to_owned()).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Locked::No { same_token: false })
    }

    fn may_keep(&self, ttl_s: i64) -> bool {
        self.is_joint || KEPT_TIMEOUTS.contains(&Duration::from_secs(ttl_s.unsigned_abs()))
    }

    async fn keeps_transaction(&mut self) -> bool {
        let rows = self.run("SELECT @@innodb_rollback_on_timeout".to_owned()).await;
        rows.is_ok_and(|rows| rows.last().and_then(|row| row.bool(0).ok()) == Some(false))
    }
}

fn values(claim: &Claim) -> [(&'static str, String); 4] {
    let (name, token) = (&claim.name, claim.token.to_string());
    [
        ("name", name.as_str().to_owned()),
        ("key", key_of(name).into_owned()),
        ("mark", mark_of(name, &token)),
        ("token", token),
    ]
}

fn arguments<'a>(
    values: &'a [(&'static str, String)],
    more: Arguments<'a>,
) -> Vec<(&'static str, Value<'a>)> {
    let values = values.iter().map(|(name, value)| (*name, Value::Text(value)));
    values.chain(more.iter().copied()).collect()
}

/// `wait_timeout` ends the idle session of a suspended process, even if it has no hold.
const SET_UP: &str = "SET SESSION wait_timeout = 60 \
                      /*M!100600 , idle_transaction_timeout = 0, idle_write_transaction_timeout = 0, \
                      idle_readonly_transaction_timeout = 0, max_statement_time = 0 */ \
                      /*!80000 , max_execution_time = 0 */";

const LET_GO: &str = "ROLLBACK; DO RELEASE_ALL_LOCKS(); SET SESSION wait_timeout = 60";

fn set_timeouts(ttl_s: i64, limit_s: i64) -> String {
    format!("SET SESSION wait_timeout = {ttl_s}, lock_wait_timeout = {limit_s}; ")
}

#[async_trait]
impl Session for MySqlSession {
    fn id(&self) -> SessionId {
        self.id
    }

    async fn lock(&mut self, claim: &Claim, slice: Option<Duration>, last: bool) -> Result<Locked> {
        // `send` rounds a slice of over a second down to whole seconds, and the caller then waits
        // again.
        let last = last && slice.is_some_and(|slice| slice < Duration::from_secs(1));
        self.has_waited |= slice.is_some() && self.common.kind == Kind::Row;
        let locked = match self.common.kind {
            Kind::Session => self.lock_key(claim, slice).await,
            Kind::Row => self.lock_row(claim, slice, last).await,
        };
        let locked = locked.map_err(|error| self.common.failed(error))?;
        let is_locked = matches!(locked, Locked::Yes(_));
        if last && !is_locked {
            (self.has_waited, self.waits_for_readers) = (false, false);
        }
        if is_locked && !self.is_joint {
            let mut mark = String::new();
            MySql::literal(Value::Text(&mark_of(&claim.name, &claim.token.to_string())), &mut mark);
            let query = watch::own(self.id, &mark);
            self.watching = Some(self.common.own.watch.over(query, claim.ttl));
        }
        Ok(locked)
    }

    async fn join(&mut self, ttl: Duration) -> Result<()> {
        self.is_joint = true;
        let ((ttl_s, limit_s), id) = (self.timeouts_for(ttl), self.id);
        let timeouts = set_timeouts(ttl_s, limit_s);
        self.run_or_fail(format!("{timeouts}DO GET_LOCK(CONCAT({JOINT}, {id}), 0)")).await?;
        self.timeouts = Some((ttl_s, limit_s));
        self.watching = Some(self.common.own.watch.over(watch::joint(id), ttl));
        Ok(())
    }

    async fn keep(&mut self, claims: &[Claim]) -> Result<Vec<Kept>> {
        let keep = |claim| self.text("keep", claim, &[]);
        let text = claims.iter().map(keep).collect::<Vec<_>>().join(" UNION ALL ");
        let rows = match self.run(text).await {
            Ok(rows) => rows,
            Err(error)
                if number(&error) == Some(LOCK_WAIT_TIMEOUT) && self.keeps_transaction().await =>
            {
                return Ok(vec![Kept::Unsure; claims.len()]);
            }
            // In the mode `row`, the error may have rolled back the transaction, which ends the
            // lock.
            Err(error)
                if self.common.kind == Kind::Session
                    && number(&error).is_some_and(|number| !is_the_end(number)) =>
            {
                return Ok(vec![Kept::Unsure; claims.len()]);
            }
            Err(error) => return Err(self.common.failed(error)),
        };
        let kept = self.common.kept(&rows, claims.len(), self.id);
        self.over |= kept.is_err();
        kept
    }

    async fn shorten(&mut self, to: Duration) -> Result<()> {
        let (ttl_s, limit_s) = self.timeouts_for(to);
        self.timeouts = Some((ttl_s, limit_s));
        self.run_or_fail(set_timeouts(ttl_s, limit_s)).await.map(drop)
    }

    async fn leave(&mut self) -> Result<()> {
        self.waits_for_readers = false;
        if std::mem::take(&mut self.has_waited) {
            self.timeouts = None;
            self.run_or_fail(LET_GO.to_owned()).await?;
        }
        Ok(())
    }

    async fn unlock(&mut self, claim: &Claim) -> Result<bool> {
        let common = Arc::clone(&self.common);
        let unlock = if self.is_joint {
            "part"
        } else {
            (self.has_waited, self.waits_for_readers) = (false, false);
            self.watching = None;
            "unlock"
        };
        let keeps_timeouts = self.timeouts.is_some_and(|(ttl_s, _)| self.may_keep(ttl_s));
        let rows = if self.prepares && keeps_timeouts {
            self.run_only(common.sql(claim.mode, unlock), claim, &[]).await
        } else {
            let mut text = self.text(unlock, claim, &[]);
            if self.timeouts.is_some() && !keeps_timeouts {
                self.timeouts = None;
                text.push_str("; SET SESSION wait_timeout = 60");
            }
            if common.kind == Kind::Row {
                text.push_str("; SET SESSION autocommit = 0");
            }
            self.run(text).await
        };
        let rows = rows.map_err(|error| common.failed(error))?;
        self.prepares = true;
        Ok(rows.last().and_then(|row| row.bool(0).ok()).unwrap_or(false))
    }

    async fn ended(&mut self) -> Ended {
        match &mut self.watching {
            _ if self.over => Ended::Session,
            Some(watching) => {
                let ended = watching.ended().await;
                self.over |= ended == Ended::Session;
                ended
            }
            None => std::future::pending().await,
        }
    }

    async fn close(self) {
        let Self { connection, watching, permit, .. } = self;
        drop(watching);
        let _ = tokio::time::timeout(CLOSE_LIMIT, connection.close()).await;
        drop(permit);
    }
}

fn seconds_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX).max(1)
}

fn is_in_vain(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(LOCK_WAIT_TIMEOUT | INTERRUPTED | DEADLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_is_one() {
        assert_eq!(seconds_up(Duration::ZERO), 1);
        assert_eq!(seconds_up(Duration::from_secs(2)), 2);
        assert_eq!(seconds_up(Duration::new(2, 1)), 3);
    }
}
