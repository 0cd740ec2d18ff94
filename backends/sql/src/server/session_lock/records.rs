//! The records of the last holders. The server's locks show whether a recorded hold still exists.

use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, Cursor, Error, ErrorKind, Fence, Holder, Inspection,
    LockName, Mode, Page, Reason, Result, SweepReport, Token,
};
use tokio::time::Instant;

use super::{Kind, RECORD_AFTER, Server, SessionId, Sessions};
use crate::kind::identity_text;
use crate::server::hold_row::millis_up;
use crate::server::{Arguments, BadRow, Effect, Row, Sql, Value};

const PAGE: usize = 200;

const STEP: i64 = 500;

const LOOKS: u32 = 10;

/// The age by which a hold is normally recorded.
const RECORDED_BY: Duration = RECORD_AFTER.saturating_mul(5);

const ASKED_FOR: Duration = Duration::from_secs(4);

const LONGEST_ASK: Duration = Duration::from_millis(2_100);

const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(320));

const OTHERS: &str = "SELECT name FROM {hold} WHERE kind = '{kind}' AND session = :session";

impl<S: Server> Sessions<S> {
    /// Records the session as the holder. Without a `fence`, the server issues one above all
    /// earlier fences. Returns the fence, or `None` if the session has ended or a later hold is
    /// recorded.
    pub(crate) async fn note(
        &self,
        claim: &Claim,
        session: SessionId,
        fence: Option<Fence>,
    ) -> Result<Option<Fence>> {
        let identity = identity_text(claim)?;
        let fence = fence.and_then(|fence| i64::try_from(fence.get()).ok()).unwrap_or_default();
        let arguments = [
            ("session", Value::Int(session)),
            ("identity", Value::Text(&identity)),
            ("ttl_ms", Value::Int(millis_up(claim.ttl))),
            ("fence", Value::Int(fence)),
        ];
        let note = self.sql(claim.mode, "note");
        let rows = self.about(note, &claim.name, claim.token, Effect::Changes, &arguments).await?;
        rows.last().map(|row| self.pool.sound(row.fence(0))).transpose()
    }

    pub(crate) async fn note_rest(&self, claim: &Claim, left: Duration) -> Result<()> {
        let mark_rest = self.sql(claim.mode, "mark_rest");
        let ttl_ms = [("ttl_ms", Value::Int(millis_up(left)))];
        self.about(mark_rest, &claim.name, claim.token, Effect::Changes, &ttl_ms).await.map(drop)
    }

    pub(crate) async fn why_ended(&self, claim: &Claim) -> Result<Option<Reason>> {
        let why = self.sql(claim.mode, "why_ended");
        let mut reason = None;
        for row in self.about(why, &claim.name, claim.token, Effect::Reads, &[]).await? {
            if self.pool.sound(row.bool(0))? {
                return Ok(Some(Reason::Broken));
            }
            if self.pool.sound(row.bool(1))? {
                reason = Some(Reason::Gone);
            }
        }
        Ok(reason)
    }

    /// Ends this claim's hold or wait, in any process. Returns whether there was one.
    pub(crate) async fn release(&self, claim: &Claim) -> Result<bool> {
        let (name, token) = (&claim.name, claim.token);
        if self.sessions_of(name, token).await?.is_empty() {
            return Ok(false);
        }
        // The release is recorded first, because the holder reads the record after its session's
        // end. A young hold or a waiting claim has no record, so the result is ignored.
        let mark_released = self.sql(claim.mode, "mark_released");
        self.mark(mark_released, name, token, &[], 3).await?;
        Ok(self.end(name, token).await? > 0)
    }

    pub(crate) async fn cancel(&self, session: SessionId) -> Result<()> {
        let arguments = [("session", Value::Int(session))];
        let cancel = self.sql(Mode::Exclusive, "cancel");
        self.pool.fetch(cancel, &arguments, Effect::Changes).await.map(drop)
    }

    pub(crate) async fn end(&self, name: &LockName, token: Token) -> Result<usize> {
        let found = self.sessions_of(name, token).await?;
        for (session, is_joint) in &found {
            if *is_joint
                && self.kind == Kind::Session
                && self.client_ends(name, token, *session).await?
            {
                continue;
            }
            let session = [("session", Value::Int(*session))];
            let kill = self.sql(Mode::Exclusive, "kill");
            let killed = self.about(kill, name, token, Effect::Changes, &session).await;
            killed.map_err(|error| self.may_not_kill(error))?;
        }
        if !found.is_empty() {
            let left = self.sessions_of(name, token).await?;
            if left.iter().any(|session| found.contains(session)) {
                return Err(self.has_not_ended());
            }
        }
        Ok(found.len())
    }

    /// Asks a joint session's client to release a hold. If it doesn't, returns false, and the
    /// caller ends the session, with all its holds.
    async fn client_ends(&self, name: &LockName, token: Token, id: SessionId) -> Result<bool> {
        let session = [("session", Value::Int(id))];
        let mark_released = self.sql(Mode::Exclusive, "mark_released");
        if !self.mark(mark_released, name, token, &[], 3).await? {
            return Err(self.not_recorded());
        }
        let (ask, token_text) = (self.sql(Mode::Exclusive, "ask"), token.to_string());
        let [name_value, token_value] = [name.as_str(), &token_text].map(Value::Text);
        let arguments = [session[0], ("name", name_value), ("token", token_value)];
        let (mut pause, begun) = (PAUSES.0, Instant::now());
        while begun.elapsed() < ASKED_FOR {
            let sending = self.pool.sending(self.pool.limits().answer + LONGEST_ASK);
            self.pool.fetch_so(ask, &arguments, Effect::Changes, sending).await?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if !self.sessions_of(name, token).await?.iter().any(|(session, _)| *session == id) {
                return Ok(true);
            }
            // A late record of the hold may have cleared `released`, so the mark is repeated.
            self.about(mark_released, name, token, Effect::Changes, &[]).await?;
        }
        let others = Sql::new(&self.pool.dialect().expand_for(self.kind, OTHERS));
        let rows = self.pool.fetch(&others, &session, Effect::Reads).await?;
        let names: Vec<_> = rows.iter().filter_map(|row| row.text(0).ok().flatten()).collect();
        tracing::warn!(
            ?names,
            "a client didn't release a hold, so its session with all of them ends"
        );
        Ok(false)
    }

    async fn sessions_of(&self, name: &LockName, token: Token) -> Result<Vec<(SessionId, bool)>> {
        let find = self.sql(Mode::Exclusive, "find");
        let found = self.about(find, name, token, Effect::Reads, &[]).await?;
        found
            .iter()
            .map(|row| self.pool.sound(row.int(0).and_then(|id| Ok((id, row.bool(1)?)))))
            .collect()
    }

    fn not_recorded(&self) -> Error {
        let message = "the hold isn't recorded yet, so it can't be ended; look again";
        self.pool.error(ErrorKind::Unavailable, message)
    }

    fn has_not_ended(&self) -> Error {
        self.pool.error(
            ErrorKind::Indeterminate,
            "the holder's session hasn't ended: it is stuck, or its hold isn't recorded yet; look again",
        )
    }

    pub(crate) async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.look(name, None).await.map(|(inspection, _)| inspection)
    }

    /// Returns the claim's holder. In a joint session, the remaining time is zero, because the
    /// record lacks the hold's deadline.
    pub(crate) async fn carried(&self, claim: &Claim) -> Result<Option<Holder>> {
        let Some((mut holder, session)) = self.holder(&claim.name, claim.token).await? else {
            return Ok(None);
        };
        if self.sessions_of(&claim.name, claim.token).await?.contains(&(session, true)) {
            holder.remaining = Some(Duration::ZERO);
        }
        Ok(Some(holder))
    }

    async fn holder(&self, name: &LockName, token: Token) -> Result<Option<(Holder, SessionId)>> {
        let (inspection, sessions) = self.look(name, Some(token)).await?;
        let mut holders = inspection.holders.into_iter().zip(sessions);
        Ok(holders.find(|(holder, _)| holder.token == Some(token)))
    }

    /// Inspects the name, repeatedly while a holder has no record. If the holder with `token` then
    /// has none, finds it by its session.
    async fn look(
        &self,
        name: &LockName,
        token: Option<Token>,
    ) -> Result<(Inspection, Vec<SessionId>)> {
        let mut looked = self.look_once(name).await?;
        let mut looks = LOOKS;
        if S::HIDES_YOUNG_ROWS && self.kind == Kind::Row && looked.0.holders.is_empty() {
            tokio::time::sleep(RECORDED_BY).await;
            looked = self.look_once(name).await?;
            looks = 0;
        }
        let is_young = |holder: &Holder| holder.identity.is_none();
        for _ in 0..looks {
            if !looked.0.holders.iter().any(is_young) {
                break;
            }
            tokio::time::sleep(RECORD_AFTER / 2).await;
            looked = self.look_once(name).await?;
        }
        let (mut inspection, sessions) = looked;
        if let Some(token) = token
            && inspection.holders.iter().any(|holder| holder.token.is_none())
        {
            let found = self.sessions_of(name, token).await?;
            for (holder, session) in inspection.holders.iter_mut().zip(&sessions) {
                if holder.token.is_none() && found.iter().any(|(id, _)| id == session) {
                    holder.token = Some(token);
                }
            }
        }
        Ok((inspection, sessions))
    }

    async fn look_once(&self, name: &LockName) -> Result<(Inspection, Vec<SessionId>)> {
        let arguments = [("name", Value::Text(name.as_str()))];
        let inspect = self.sql(Mode::Exclusive, "inspect");
        let rows = self.pool.fetch(inspect, &arguments, Effect::Reads).await?;
        let mut inspection = Inspection::free(name.clone());
        let mut sessions = Vec::new();
        for row in &rows {
            sessions.extend(self.pool.sound(add_holder(row, &mut inspection))?);
            let waiters = self.pool.sound(row.int(8))?;
            inspection.waiters = u64::try_from(waiters).ok();
        }
        Ok((inspection, sessions))
    }

    pub(crate) async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        if from.is_none() {
            tokio::time::sleep(RECORDED_BY).await;
        }
        let arguments = [
            ("from", Value::Text(from.as_ref().map_or(prefix, |cursor| &cursor.0))),
            ("inclusive", Value::Bool(from.is_none())),
            ("limit", Value::Int(PAGE as i64)),
        ];
        let list = self.sql(Mode::Exclusive, "list");
        let rows = self.pool.fetch(list, &arguments, Effect::Reads).await?;
        let mut page = Page::default();
        for row in &rows {
            let Some(name) = self.pool.sound(row.text(0))? else { continue };
            // MySQL ignores spaces at the prefix's end.
            if name < prefix {
                continue;
            }
            if !name.starts_with(prefix) {
                return Ok(page);
            }
            let name = self.pool.sound(LockName::new(name).map_err(|_| BadRow))?;
            if page.names.last().is_none_or(|last| last.name != name) {
                page.names.push(Inspection::free(name));
            }
            if let Some(inspection) = page.names.last_mut() {
                self.pool.sound(add_holder(row, inspection))?;
            }
        }
        if rows.len() >= PAGE {
            // The page may lack readers of its last name, so the next page has that name.
            if page.names.len() > 1 {
                page.names.pop();
            }
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
            if let [only] = &mut page.names[..] {
                // This page may lack readers of its only name.
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
        let seen = match seen {
            BreakTarget::Token(token) => Some(token),
            BreakTarget::Any => None,
        };
        let (inspection, sessions) = self.look(name, seen).await?;
        let mut broken = Broken::NotHeld;
        for (holder, session) in inspection.holders.iter().zip(sessions) {
            if seen.is_none() || holder.token == seen {
                broken = broken.and(self.break_one(name, holder, session, how, note).await)?;
            }
        }
        // The hold isn't recorded yet if only a session of this token exists.
        if let (Some(token), Broken::NotHeld) = (seen, &broken)
            && inspection.holders.is_empty()
            && !self.sessions_of(name, token).await?.is_empty()
        {
            return Err(self.not_recorded());
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
        let Some(token) = holder.token else {
            if self.kind != Kind::Session || how != BreakMode::Now {
                return Err(self.pool.error(
                    ErrorKind::Unsupported,
                    "the holder isn't a Lockwright client, or its hold isn't recorded yet; look again, \
                     or end its session",
                ));
            }
            let kill = self.sql(Mode::Exclusive, "kill_foreign");
            let arguments =
                [("name", Value::Text(name.as_str())), ("session", Value::Int(session))];
            let killed = self.pool.fetch(kill, &arguments, Effect::Changes).await;
            killed.map_err(|error| self.may_not_kill(error))?;
            let (_, left) = self.look(name, None).await?;
            if left.contains(&session) {
                return Err(self.has_not_ended());
            }
            return Ok(Broken::Freed(Duration::MAX));
        };
        let mark_broken = self.sql(holder.mode, "mark_broken");
        let note = [("note", Value::Text(note))];
        let marked = self.mark(mark_broken, name, token, &note, 10).await?;
        // The remaining time is read after the mark, which prevents renewals.
        let remaining = match self.holder(name, token).await? {
            Some((holder, _)) => holder.remaining.unwrap_or(Duration::MAX),
            None => Duration::ZERO,
        };
        if how == BreakMode::RunOut {
            let message =
                "the hold has only just begun, or just ended, and couldn't be marked; look again";
            let unmarked = || self.pool.error(ErrorKind::Unavailable, message);
            return marked.then_some(Broken::RunsOut(remaining)).ok_or_else(unmarked);
        }
        match self.end(name, token).await {
            Ok(0) => Ok(Broken::NotHeld),
            Ok(_) => Ok(Broken::Freed(remaining)),
            Err(error) if error.kind() == ErrorKind::Denied => {
                let message = "the holder's session belongs to another user of the server, and this \
                               one may not end it; the hold can't be renewed any more, and runs \
                               out by itself";
                Err(self.pool.error(ErrorKind::Denied, message).with_source(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs `sql` on a hold's record, and returns whether it exists. Tries several times, because a
    /// young hold isn't recorded yet.
    async fn mark(
        &self,
        sql: &Sql,
        name: &LockName,
        token: Token,
        more: Arguments<'_>,
        tries: u32,
    ) -> Result<bool> {
        for _ in 0..tries {
            if !self.about(sql, name, token, Effect::Changes, more).await?.is_empty() {
                return Ok(true);
            }
            tokio::time::sleep(RECORD_AFTER).await;
        }
        Ok(false)
    }

    pub(crate) async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        // As `YOUNGEST_SWEPT` of the lease mode.
        const YOUNGEST: Duration = Duration::from_secs(60);

        let idle_us = i64::try_from(idle.max(YOUNGEST).as_micros()).unwrap_or(i64::MAX);
        let arguments = [("idle_us", Value::Int(idle_us)), ("limit", Value::Int(STEP))];
        let sweep = self.sql(Mode::Exclusive, "sweep");
        let rows = self.pool.fetch(sweep, &arguments, Effect::Changes).await?;
        let swept = rows.last().map_or(Ok(0), |row| self.pool.sound(row.int(0)))?;
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
        let message = "the session belongs to another user of the server, and this one may not end \
                       it; connect as that user, or as a user who may end other users' sessions";
        self.pool.error(ErrorKind::Denied, message).with_source(error)
    }
}

/// Adds the holder in a row of `inspect` or `list`, if any, and returns its session. The columns
/// are 0 `name`, 1 the holding `session` (NULL if free), 2 the session's token if known, 3 the
/// recorded token, 4 `identity`, 5 the name's `fence`, 6 the time left in µs, 7 `broken`, 8 the
/// number of waiters, 9 whether the holder is a reader, 10 the time of the grant in µs since 1970.
fn add_holder(row: &Row, inspection: &mut Inspection) -> Result<Option<SessionId>, BadRow> {
    if !row.is_null(5) {
        inspection.fence = Some(row.fence(5)?);
    }
    if row.is_null(1) {
        return Ok(None);
    }
    let shown = row.text(2)?;
    let mut holder = Holder::new(shown.and_then(|token| token.parse().ok()));
    if row.bool(9)? {
        holder.mode = Mode::Shared;
    }
    // The record may still be the previous holder's.
    if shown.is_some() && shown == row.text(3)? {
        holder.identity = row.text(4)?.and_then(|text| serde_json::from_str(text).ok());
        holder.fence = inspection.fence;
        let left = row.int(6).ok().and_then(|left| u64::try_from(left).ok());
        holder.remaining = left.map(Duration::from_micros);
        holder.broken = row.text(7)?.map(str::to_owned);
        if let Some(since) = row.int(10).ok().and_then(|micros| u64::try_from(micros).ok()) {
            holder.set_since(Duration::from_micros(since));
        }
    }
    inspection.holders.push(holder);
    row.int(1).map(Some)
}
