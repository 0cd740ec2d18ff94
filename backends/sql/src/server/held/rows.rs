//! The records of the last holders. The server's list of sessions shows whether a holder still
//! holds.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Error, ErrorKind, Fence, Holder, Inspection,
    LockName, Mode, Page, Reason, Result, SweepReport, Token,
};

use super::SessionId;
use crate::server::dialect::{BadRow, Dialect, Row};
use crate::server::errors::{Effect, bad_row};
use crate::server::pool::Pool;
use crate::server::sql::{Arguments, Sql, Value};

const PAGE: usize = 200;

const STEP: i64 = 500;

/// SQL about holds. `:name` and `:token` identify a hold. `{held}` is the table of exclusive holds
/// or of readers.
#[derive(Debug)]
pub(crate) struct StatementTexts {
    /// Records the `:session`, `:identity` and `:ttl_ms`, and returns the fence, or no row if the
    /// session isn't the claim's any more.
    pub(crate) note: &'static str,
    pub(crate) shared_note: &'static str,
    /// Returns whether the hold or its tombstone is marked as broken, and whether as released
    /// through another connection. Returns no row if neither exists.
    pub(crate) why_ended: &'static str,
    /// Returns each holder as a [`View`], or one row without a session if the name is free.
    pub(crate) inspect: &'static str,
    /// Returns the rows of `inspect`, without waiters, for at most `:limit` held names after
    /// `:from` in byte order. `:inclusive` includes `:from`.
    pub(crate) list: &'static str,
    /// Marks the hold or its tombstone as broken, if any, and returns a row.
    pub(crate) mark_broken: &'static str,
    pub(crate) mark_released: &'static str,
    /// Returns the sessions that hold or wait for this claim.
    pub(crate) find: &'static str,
    /// Ends the `:session` if it is still the claim's, and waits for its end.
    pub(crate) kill: &'static str,
    /// Ends the `:session` of another program if it still holds the name. Empty if the server
    /// can't.
    pub(crate) kill_foreign: &'static str,
    pub(crate) cancel: &'static str,
    /// Deletes at most `:limit` rows that aren't held and didn't change for `:idle_us`, and returns
    /// how many. Raises the floor, above which new fences start, to the rows' highest fence.
    pub(crate) sweep: &'static str,
}

#[derive(Debug)]
pub(crate) struct Rows<D: Dialect> {
    pub(crate) pool: Arc<Pool<D>>,
    alone: Written,
    shared: Written,
    why_ended: Sql,
    inspect: Sql,
    list: Sql,
    find: Sql,
    kill: Sql,
    kill_foreign: Option<Sql>,
    cancel: Sql,
    sweep: Sql,
}

#[derive(Debug)]
struct Written {
    note: Sql,
    mark_broken: Sql,
    mark_released: Sql,
}

/// A holder's row. The columns are 0 `name`, 1 the holding `session`, 2 the token of the session's
/// mark, 3 the recorded token, 4 `identity`, 5 the name's `fence`, 6 the time left in µs, 7
/// `broken`, 8 the number of waiters, 9 whether the holder is a reader.
struct View<'a>(&'a Row);

impl<D: Dialect> Rows<D> {
    pub(crate) fn new(
        pool: Arc<Pool<D>>,
        texts: &StatementTexts,
        expand: impl Fn(&str) -> String,
    ) -> Self {
        let sql = |text| Sql::new(&expand(text));
        let written = |hot, note: &str, mode| {
            let about = |text| Sql::new(&expand(&table_of(mode, text)));
            Written {
                note: Sql::hot(hot, expand(note).trim_end().trim_end_matches(';')),
                mark_broken: about(texts.mark_broken),
                mark_released: about(texts.mark_released),
            }
        };
        Self {
            alone: written("held_note", texts.note, Mode::Exclusive),
            shared: written("held_shared_note", texts.shared_note, Mode::Shared),
            why_ended: sql(texts.why_ended),
            inspect: sql(texts.inspect),
            list: sql(texts.list),
            find: sql(texts.find),
            kill: sql(texts.kill),
            kill_foreign: (!texts.kill_foreign.is_empty()).then(|| sql(texts.kill_foreign)),
            cancel: sql(texts.cancel),
            sweep: sql(texts.sweep),
            pool,
        }
    }

    fn written(&self, mode: Mode) -> &Written {
        if mode == Mode::Shared { &self.shared } else { &self.alone }
    }

    pub(crate) async fn note(&self, claim: &Claim, session: SessionId) -> Result<Option<Fence>> {
        let identity = serde_json::to_string(&*claim.identity).map_err(|source| {
            Error::invalid_input("the identity can't be written as JSON").with_source(source)
        })?;
        let ttl_ms = i64::try_from(claim.ttl.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX);
        let rows = self
            .about(
                &self.written(claim.mode).note,
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
        let mut reason = None;
        for row in &rows {
            if self.read(row.bool(0))? {
                return Ok(Some(Reason::Broken));
            }
            if self.read(row.bool(1))? {
                reason = Some(Reason::Gone);
            }
        }
        Ok(reason)
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<bool> {
        let (name, token) = (&claim.name, claim.token);
        if self.sessions_of(name, token).await?.is_empty() {
            return Ok(false);
        }
        // The release is recorded first, because the holder detects the session's end and reads the
        // record.
        let mark_released = &self.written(claim.mode).mark_released;
        self.about(mark_released, name, token, Effect::Changes, &[]).await?;
        Ok(self.end(name, token).await? > 0)
    }

    pub(crate) async fn cancel(&self, session: SessionId) -> Result<()> {
        let arguments = [("session", Value::Int(session))];
        self.pool.fetch(&self.cancel, &arguments, Effect::Changes).await.map(drop)
    }

    pub(crate) async fn end(&self, name: &LockName, token: Token) -> Result<usize> {
        let found = self.sessions_of(name, token).await?;
        for session in &found {
            let session = [("session", Value::Int(*session))];
            self.about(&self.kill, name, token, Effect::Changes, &session)
                .await
                .map_err(|error| self.may_not_kill(error))?;
        }
        if !found.is_empty() {
            let left = self.sessions_of(name, token).await?;
            if left.iter().any(|session| found.contains(session)) {
                return Err(self.has_not_ended());
            }
        }
        Ok(found.len())
    }

    async fn sessions_of(&self, name: &LockName, token: Token) -> Result<Vec<SessionId>> {
        let found = self.about(&self.find, name, token, Effect::Reads, &[]).await?;
        found.iter().map(|row| self.read(row.int(0))).collect()
    }

    fn has_not_ended(&self) -> Error {
        Error::indeterminate(
            "the server was asked to end the holder's session, which hasn't ended yet and may be \
             stuck; look again",
        )
        .with_backend(self.backend())
    }

    pub(crate) async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.look(name).await.map(|(inspection, _)| inspection)
    }

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
                // In byte order, names with the prefix are contiguous.
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
            // The last name may have more readers, so it moves to the next page.
            if page.names.len() > 1 {
                page.names.pop();
            }
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
            if let [only] = &mut page.names[..] {
                // The readers of the only name may not fit on a page.
                *only = self.inspect(&only.name).await?;
            }
            page.names.retain(|name| !name.holders.is_empty());
        }
        Ok(page)
    }

    pub(crate) async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        let (inspection, sessions) = self.look(name).await?;
        let mut broken = Broken::NotHeld;
        for (holder, session) in inspection.holders.iter().zip(sessions) {
            if matches!(seen, BreakTarget::Token(seen) if holder.token != Some(seen)) {
                continue;
            }
            broken = match self.break_one(name, holder, session, how, note).await {
                Ok(one) => broken.and(one),
                Err(error) if broken == Broken::NotHeld => return Err(error),
                Err(error) => Err(Error::indeterminate(
                    "some holders were broken, and one couldn't be; look again",
                )
                .with_backend(self.backend())
                .with_source(error))?,
            };
        }
        Ok(broken)
    }

    async fn break_one(
        &self,
        name: &LockName,
        holder: &Holder,
        session: SessionId,
        how: BreakMode,
        note: &str,
    ) -> Result<Broken> {
        let remaining = holder.remaining.unwrap_or_default();
        let Some(token) = holder.token else {
            return match (&self.kill_foreign, how) {
                (Some(kill), BreakMode::Now) => {
                    let arguments =
                        [("name", Value::Text(name.as_str())), ("session", Value::Int(session))];
                    let killed = self.pool.fetch(kill, &arguments, Effect::Changes).await;
                    killed.map_err(|error| self.may_not_kill(error))?;
                    let (_, left) = self.look(name).await?;
                    if left.contains(&session) {
                        return Err(self.has_not_ended());
                    }
                    Ok(Broken::Freed(remaining))
                }
                _ => Err(Error::new(
                    ErrorKind::Unsupported,
                    "the holder isn't a Lockwright client, so its hold never expires; end its \
                     session",
                )
                .with_backend(self.backend())),
            };
        };
        let marked = self.mark_broken(name, token, holder.mode, note).await?;
        if how == BreakMode::RunOut {
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

    /// Marks the hold as broken, which ends it at its next renewal. Returns whether the hold
    /// exists. Retries, because a holder writes its row after locking.
    async fn mark_broken(
        &self,
        name: &LockName,
        token: Token,
        mode: Mode,
        note: &str,
    ) -> Result<bool> {
        const TRIES: u32 = 10;
        const PAUSE: Duration = Duration::from_millis(20);

        let note = [("note", Value::Text(note))];
        let mark_broken = &self.written(mode).mark_broken;
        for _ in 0..TRIES {
            let rows = self.about(mark_broken, name, token, Effect::Changes, &note).await?;
            if !rows.is_empty() {
                return Ok(true);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(false)
    }

    pub(crate) async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        // No statement runs this long, so each running statement began after the last change of the
        // deleted rows.
        const YOUNGEST: Duration = Duration::from_secs(60);

        let idle_us = i64::try_from(idle.max(YOUNGEST).as_micros()).unwrap_or(i64::MAX);
        let arguments = [("idle_us", Value::Int(idle_us)), ("limit", Value::Int(STEP))];
        let rows = self.pool.fetch(&self.sweep, &arguments, Effect::Changes).await?;
        let swept = rows.last().map_or(Ok(0), |row| self.read(row.int(0)))?;
        Ok(SweepReport { rows: u64::try_from(swept).unwrap_or_default(), more: swept >= STEP })
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
             connect as that user, or as a user who may end other users' sessions",
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
        if !row.is_null(5) {
            inspection.fence = Some(fence(row.int(5))?);
        }
        if self.is_free() {
            return Ok(());
        }
        let shown = row.text(2)?;
        let mut holder = Holder::new(shown.and_then(|token| token.parse().ok()));
        if row.bool(9)? {
            holder.mode = Mode::Shared;
        }
        // The row may still be the previous holder's, so the tokens must match.
        if shown.is_some() && shown == row.text(3)? {
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

pub(crate) fn table_of(mode: Mode, text: &str) -> String {
    text.replace("{held}", if mode == Mode::Shared { "{reader}" } else { "{hold}" })
}

fn fence(number: Result<i64, BadRow>) -> Result<Fence, BadRow> {
    number?.try_into().map(Fence::new).map_err(|_| BadRow)
}
