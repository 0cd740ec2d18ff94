//! What is written down about holds, for the fence and for operators: the part of a [`Server`](super::Server) that
//! is the same for each database, with the database's own texts.
//!
//! A row of the table says who got a name last. Whether that one still holds, only the server's own
//! view of its sessions says, and the texts look there.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BreakHow, Broken, Claim, Cursor, Error, ErrorKind, Fence, Holder, Inspection, LockName, Page,
    Reason, Result, Seen, Swept, Token,
};

use super::SessionId;
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;
use crate::server::sql::{Arguments, Sql, Value};

/// How many names a page of a listing has.
const PAGE: usize = 200;

/// How many rows one step of a sweep deletes at most.
const STEP: i64 = 500;

/// The texts of a database, for one way of holding. `:name` and `:token` say which hold.
#[derive(Debug)]
pub(crate) struct Texts {
    /// Writes down who holds, and answers the fence; no row if the `:session` isn't the claim's any
    /// more. `:identity`, `:ttl_ms`.
    pub(crate) note: &'static str,
    /// Answers whether the hold was broken, and whether it was released through another
    /// connection; no row if nothing is known of it.
    pub(crate) why_ended: &'static str,
    /// Answers each holder of the name as [`View`] reads it, and one row without a session if the
    /// name is free.
    pub(crate) inspect: &'static str,
    /// The same for the held names above or, if `:inclusive`, from `:from` on, in the order of
    /// their bytes, at most `:limit` rows, without waiters.
    pub(crate) list: &'static str,
    /// Notes a break, unless there is a note already; answers a row if the hold is known.
    pub(crate) mark_broken: &'static str,
    /// Notes that the hold is released through another connection than its own.
    pub(crate) mark_released: &'static str,
    /// Answers the numbers of the sessions that hold or wait for this claim.
    pub(crate) find: &'static str,
    /// Ends the `:session` if it still is the claim's, and returns when it has ended.
    pub(crate) kill: &'static str,
    /// Ends the `:session` if it still holds the name, though it isn't one of ours. Empty if that
    /// can't be done.
    pub(crate) kill_foreign: &'static str,
    /// Stops what the `:session` is in the middle of.
    pub(crate) cancel: &'static str,
    /// Raises the floor above the fences of at most `:limit` rows that weren't touched for
    /// `:idle_us` and whose hold is over, deletes them, and answers how many.
    pub(crate) sweep: &'static str,
}

/// The rows, by way of pooled connections.
#[derive(Debug)]
pub(crate) struct Rows<D: Dialect> {
    pub(crate) pool: Arc<Pool<D>>,
    note: Sql,
    why_ended: Sql,
    inspect: Sql,
    list: Sql,
    mark_broken: Sql,
    mark_released: Sql,
    find: Sql,
    kill: Sql,
    kill_foreign: Option<Sql>,
    cancel: Sql,
    sweep: Sql,
}

/// One holder of a name, as the texts answer it, column by column:
/// 0 `name`, 1 the holding `session`, 2 the token that the session shows, 3 the token of the row,
/// 4 `identity`, 5 `fence`, 6 the time left in µs, 7 `broken`, 8 the number of waiters.
struct View<'a>(&'a Row);

impl<D: Dialect> Rows<D> {
    /// The texts go through `expand`, where a database replaces what stands in braces.
    pub(crate) fn new(pool: Arc<Pool<D>>, texts: &Texts, expand: impl Fn(&str) -> String) -> Self {
        let sql = |text| Sql::new(&expand(text));
        Self {
            note: Sql::hot("held_note", expand(texts.note).trim_end().trim_end_matches(';')),
            why_ended: sql(texts.why_ended),
            inspect: sql(texts.inspect),
            list: sql(texts.list),
            mark_broken: sql(texts.mark_broken),
            mark_released: sql(texts.mark_released),
            find: sql(texts.find),
            kill: sql(texts.kill),
            kill_foreign: (!texts.kill_foreign.is_empty()).then(|| sql(texts.kill_foreign)),
            cancel: sql(texts.cancel),
            sweep: sql(texts.sweep),
            pool,
        }
    }

    pub(crate) async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>> {
        let identity = serde_json::to_string(&*claim.identity).map_err(|source| {
            Error::invalid_input("the identity can't be written as JSON").with_source(source)
        })?;
        let ttl_ms = i64::try_from(claim.ttl.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        let rows = self
            .about(
                &self.note,
                &claim.name,
                claim.token,
                Effect::Changes,
                &[
                    ("session", Value::Int(session)),
                    ("identity", Value::Text(&identity)),
                    ("ttl_ms", Value::Int(ttl_ms)),
                ],
            )
            .await?;
        rows.last().map(|row| self.read(fence(row.int(0)))).transpose()
    }

    pub(crate) async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>> {
        let rows =
            self.about(&self.why_ended, &claim.name, claim.token, Effect::Reads, &[]).await?;
        let Some(row) = rows.last() else { return Ok(None) };
        Ok(match (self.read(row.bool(0))?, self.read(row.bool(1))?) {
            (true, _) => Some(Reason::Broken),
            (false, true) => Some(Reason::Gone),
            (false, false) => None,
        })
    }

    /// Ends the claim's session from elsewhere, because it was released.
    pub(crate) async fn release(&self, claim: &Claim) -> Result<bool> {
        let (name, token) = (&claim.name, claim.token);
        let found = self.about(&self.find, name, token, Effect::Reads, &[]).await?;
        if found.is_empty() {
            return Ok(false);
        }
        // First, so that the holder learns why as soon as it learns that.
        self.about(&self.mark_released, name, token, Effect::Changes, &[]).await?;
        Ok(self.end(name, token).await? > 0)
    }

    pub(crate) async fn cancel(&self, session: SessionId) -> Result<()> {
        let arguments = [("session", Value::Int(session))];
        self.pool.fetch(&self.cancel, &arguments, Effect::Changes).await.map(drop)
    }

    /// Ends whatever sessions are this claim's; how many there were.
    pub(crate) async fn end(&self, name: &LockName, token: Token) -> Result<usize> {
        let found = self.about(&self.find, name, token, Effect::Reads, &[]).await?;
        for row in &found {
            let session = self.read(row.int(0))?;
            let session = [("session", Value::Int(session))];
            self.about(&self.kill, name, token, Effect::Changes, &session)
                .await
                .map_err(|error| self.may_not_kill(error))?;
        }
        Ok(found.len())
    }

    pub(crate) async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.look(name).await.map(|(inspection, _)| inspection)
    }

    /// With the numbers of the holders' sessions.
    async fn look(&self, name: &LockName) -> Result<(Inspection, Vec<SessionId>)> {
        let arguments = [("name", Value::Text(name.as_str()))];
        let rows = self.pool.fetch(&self.inspect, &arguments, Effect::Reads).await?;
        let mut inspection = Inspection::free(name.clone());
        let mut sessions = Vec::new();
        for row in &rows {
            let view = View(row);
            self.read(view.add_to(&mut inspection))?;
            sessions.extend(self.read(view.session())?);
            let waiters = self.read(row.int(8))?;
            inspection.waiters = u64::try_from(waiters).ok();
        }
        Ok((inspection, sessions))
    }

    pub(crate) async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let arguments = [
            ("from", Value::Text(from.as_ref().map_or(prefix, |cursor| &cursor.0))),
            ("inclusive", Value::Bool(from.is_none())),
            ("limit", Value::Int(limit)),
        ];
        let rows = self.pool.fetch(&self.list, &arguments, Effect::Reads).await?;
        let mut page = Page::default();
        for row in &rows {
            let Some(name) = self.read(row.text(0))? else { continue };
            if !name.starts_with(prefix) {
                // Names are in byte order, so those with the prefix stand together.
                return Ok(page);
            }
            let name = LockName::new(name).map_err(|_| bad_row(BadRow, self.backend()))?;
            if page.names.last().is_none_or(|last| last.name != name) {
                page.names.push(Inspection::free(name));
            }
            if let Some(inspection) = page.names.last_mut() {
                self.read(View(row).add_to(inspection))?;
            }
        }
        if rows.len() >= PAGE {
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
        }
        Ok(page)
    }

    pub(crate) async fn break_lock(
        &self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        note: &str,
    ) -> Result<Broken> {
        let (inspection, sessions) = self.look(name).await?;
        let (Some(holder), Some(&session)) = (inspection.holders.first(), sessions.first()) else {
            return Ok(Broken::NotHeld);
        };
        if matches!(seen, Seen::Token(seen) if holder.token != Some(seen)) {
            return Ok(Broken::NotHeld);
        }
        let remaining = holder.remaining.unwrap_or_default();
        let Some(token) = holder.token else {
            return match (&self.kill_foreign, how) {
                (Some(kill), BreakHow::Now) => {
                    let arguments =
                        [("name", Value::Text(name.as_str())), ("session", Value::Int(session))];
                    let killed = self.pool.fetch(kill, &arguments, Effect::Changes).await;
                    killed.map_err(|error| self.may_not_kill(error))?;
                    Ok(Broken::Freed(remaining))
                }
                _ => Err(Error::new(
                    ErrorKind::Unsupported,
                    "the holder isn't one of ours, so there is nothing that makes it run out; end \
                     its session",
                )
                .with_backend(self.backend())),
            };
        };
        let marked = self.mark_broken(name, token, note).await?;
        if how == BreakHow::RunOut {
            return if marked {
                Ok(Broken::RunsOut(remaining))
            } else {
                Err(Error::unavailable(
                    "the hold has only just begun, or just ended, and couldn't be marked; look \
                     again",
                )
                .with_backend(self.backend()))
            };
        }
        match self.end(name, token).await {
            Ok(0) => Ok(Broken::NotHeld),
            Ok(_) => Ok(Broken::Freed(remaining)),
            Err(error) if error.kind() == ErrorKind::Denied => Err(Error::new(
                ErrorKind::Denied,
                "the holder's session belongs to another user of the server, and this one may not \
                 end it; the hold can't be renewed any more, and runs out by itself",
            )
            .with_backend(self.backend())
            .with_source(error)),
            Err(error) => Err(error),
        }
    }

    /// Whether the hold bears a mark now, by which its next renewal ends it. A hold is written down
    /// a moment after its lock was got.
    async fn mark_broken(&self, name: &LockName, token: Token, note: &str) -> Result<bool> {
        const TRIES: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(20);

        let note = [("note", Value::Text(note))];
        for _ in 0..TRIES {
            let rows = self.about(&self.mark_broken, name, token, Effect::Changes, &note).await?;
            if !rows.is_empty() {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }

    pub(crate) async fn sweep(&self, idle: Duration) -> Result<Swept> {
        // Longer than any statement takes, so that none that is under way has read the floor before
        // it was raised.
        const YOUNGEST: Duration = Duration::from_secs(60);

        let idle_us = i64::try_from(idle.max(YOUNGEST).as_micros()).unwrap_or(i64::MAX);
        let arguments = [("idle_us", Value::Int(idle_us)), ("limit", Value::Int(STEP))];
        let rows = self.pool.fetch(&self.sweep, &arguments, Effect::Changes).await?;
        let swept = rows.last().map_or(Ok(0), |row| self.read(row.int(0)))?;
        Ok(Swept { rows: u64::try_from(swept).unwrap_or_default(), more: swept >= STEP })
    }

    async fn about(
        &self,
        sql: &Sql,
        name: &LockName,
        token: Token,
        effect: Effect,
        more: Arguments<'_>,
    ) -> Result<Vec<Row>> {
        let token = token.to_string();
        let mut arguments =
            vec![("name", Value::Text(name.as_str())), ("token", Value::Text(&token))];
        arguments.extend_from_slice(more);
        self.pool.fetch(sql, &arguments, effect).await
    }

    fn may_not_kill(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Denied {
            return error;
        }
        Error::new(
            ErrorKind::Denied,
            "the session belongs to another user of the server, and this one may not end it; \
             connect as that user, or as one who may end the sessions of others",
        )
        .with_backend(self.backend())
        .with_source(error)
    }

    fn backend(&self) -> &'static str {
        self.pool.dialect().backend()
    }

    fn read<T>(&self, value: std::result::Result<T, BadRow>) -> Result<T> {
        value.map_err(|row| bad_row(row, self.backend()))
    }
}

impl View<'_> {
    fn session(&self) -> Result<Option<SessionId>, BadRow> {
        if self.is_free() { Ok(None) } else { self.0.int(1).map(Some) }
    }

    fn is_free(&self) -> bool {
        matches!(self.0.0.get(1), None | Some(crate::server::dialect::Cell::Null))
    }

    fn add_to(&self, inspection: &mut Inspection) -> Result<(), BadRow> {
        let row = self.0;
        let written = row.text(3)?;
        if written.is_some() {
            inspection.fence = Some(fence(row.int(5))?);
        }
        if self.is_free() {
            return Ok(());
        }
        let shown = row.text(2)?;
        let mut holder = Holder::new(shown.and_then(|token| token.parse().ok()));
        // Between its lock and its row, a new holder is known by its session alone.
        if shown.is_some() && shown == written {
            holder.identity = row.text(4)?.and_then(|text| serde_json::from_str(text).ok());
            holder.fence = inspection.fence;
            let left = row.int(6).ok().and_then(|left| u64::try_from(left).ok());
            holder.remaining = left.map(Duration::from_micros);
            holder.broken = row.text(7)?.map(str::to_owned);
        }
        inspection.holders.push(holder);
        Ok(())
    }
}

fn fence(number: Result<i64, BadRow>) -> Result<Fence, BadRow> {
    number?.try_into().map(Fence::new).map_err(|_| BadRow)
}
