//! The operations on rows, without waits or retries.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Claim, Cursor, Error,
    ErrorKind, Fence, Granted, Holder, Inspection, LockName, Mode, Page, Reason, Renewal,
    SweepReport, Token,
};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{Database, Result, Row};

use crate::kind;
use crate::queries::files;

pub(super) const QUERIES: &str =
    files!("acquire", "break", "inspect", "release", "renew", "swap", "sweep");

macro_rules! query {
    ($name:literal $(; $($value:expr),+)?) => {
        {
            static TEXT: std::sync::LazyLock<&str> = std::sync::LazyLock::new(|| {
                crate::queries::find(crate::sqlite::statements::QUERIES, $name)
            });
            sqlx::query(*TEXT)$($(.bind($value))+)?
        }
    };
}
pub(super) use query;

const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

const PAGE: i64 = 200;

const SWEEP: u32 = 200;

pub(super) type Statement<'q> = Query<'q, Sqlite, <Sqlite as Database>::Arguments>;

/// The tables at the instant `now`, which most operations must read in their transaction.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) now: BootInstant,
    pub(super) boot: &'a str,
}

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) claim: Claim,
    pub(super) identity: String,
    pub(super) waits: bool,
}

#[derive(Debug)]
pub(super) enum Acquired {
    Outcome(AcquireOutcome),
    Refused(Error),
    /// The token already holds the name, or it has just become free: a transaction must decide.
    Again,
}

impl Acquired {
    pub(super) fn granted(row: &SqliteRow) -> Result<Self> {
        Ok(Self::Outcome(AcquireOutcome::Granted(grant(row)?)))
    }

    fn ended() -> Self {
        Self::Refused(Error::new(
            ErrorKind::Lost(Reason::Gone),
            "the request was cancelled before it reached the server; acquire the lock again",
        ))
    }

    pub(super) fn busy(
        retry_after: Option<Duration>,
        holder: Option<Holder>,
        queued: bool,
    ) -> Self {
        let holder = holder.map(Box::new);
        Self::Outcome(AcquireOutcome::Busy(Busy { retry_after, holder, queued }))
    }
}

impl Tables<'_> {
    pub(super) fn is_live(&self, row: &SqliteRow) -> Result<bool> {
        Ok(row.try_get::<&str, _>("boot")? == self.boot && expires(row)? > self.now)
    }

    pub(super) fn remaining(&self, row: &SqliteRow) -> Result<Duration> {
        Ok(expires(row)?.saturating_since(self.now))
    }

    /// Outside a transaction, `now` is read before SQLite takes the write lock. That is safe for a
    /// grant: a hold expired at `now` is still expired, and the new one lasts at least one TTL from
    /// the request. An existing hold may have expired since `now`, so only a transaction renews it.
    pub(super) async fn acquire(
        &mut self,
        asked: &Acquire,
        in_transaction: bool,
    ) -> Result<Acquired> {
        let claim = &asked.claim;
        let is_alone = claim.mode == Mode::Exclusive;
        let token = claim.token.to_string();
        if is_alone {
            let acquire = query!("acquire";
                claim.name.as_str(), &token, &asked.identity, i64::from(claim.fences.max(1)),
                nanos(claim.ttl), self.boot, stored(self.now)
            );
            if let Some(row) = self.rows(acquire).await?.first() {
                return Acquired::granted(row);
            }
        }
        let (row, is_live, is_ended) = self.seen(&claim.name, &token).await?;
        if is_ended {
            return Ok(Acquired::ended());
        }
        let present = if is_live { present(&row)? } else { claim.mode };
        if !present.is_of_the_kind_of(claim.mode) {
            return Ok(Acquired::Refused(Error::other_kind(claim.mode)));
        }
        if !is_alone && present != Mode::Exclusive {
            return self.acquire_shared(asked, &row, is_live).await;
        }
        let is_own = is_alone && is_live && row.try_get::<&str, _>("token")? == token;
        if is_own && in_transaction {
            return self.again(claim, &row).await;
        }
        if is_own || !is_live {
            return Ok(Acquired::Again);
        }
        let is_read = present == Mode::Shared;
        if is_read && asked.waits {
            self.wait(asked, row.try_get("fence")?).await?;
        }
        let holder =
            if is_read { self.first_holder(&claim.name).await? } else { Some(self.holder(&row)?) };
        Ok(Acquired::busy(Some(self.remaining(&row)?), holder, is_read && asked.waits))
    }

    pub(super) async fn again(&mut self, claim: &Claim, row: &SqliteRow) -> Result<Acquired> {
        let mut granted = grant(row)?;
        if self.renewed(&[claim]).await?.is_empty() {
            granted.valid = Some(self.remaining(row)?);
        }
        Ok(Acquired::Outcome(AcquireOutcome::Granted(granted)))
    }

    pub(super) async fn swap(&mut self, from: Token, asked: &Acquire) -> Result<Acquired> {
        let claim = &asked.claim;
        let is_alone = claim.mode == Mode::Exclusive;
        let (from, token) = (from.to_string(), claim.token.to_string());
        let (row, is_live, is_ended) = self.seen(&claim.name, &token).await?;
        if is_ended {
            return Ok(Acquired::ended());
        }
        let own = if !is_alone {
            self.own(&claim.name, &token).await?
        } else if is_live && row.try_get::<&str, _>("token")? == token {
            Some(row)
        } else {
            None
        };
        if let Some(own) = own {
            return self.again(claim, &own).await;
        }
        let swapped = if is_alone {
            let swap = query!("swap";
                claim.name.as_str(), &from, &token, &asked.identity, nanos(claim.ttl), self.boot,
                stored(self.now)
            );
            self.rows(swap).await?.pop()
        } else {
            self.swap_shared(&from, asked).await?
        };
        let Some(row) = swapped else { return Ok(Acquired::busy(None, None, false)) };
        self.put_tombstone(&from, claim.ttl, None).await?;
        Acquired::granted(&row)
    }

    /// Returns the name's row, whether it has an unexpired hold (false with a tombstone), and
    /// whether the token has a tombstone.
    async fn seen(&mut self, name: &LockName, token: &str) -> Result<(SqliteRow, bool, bool)> {
        let mut rows = self.rows(query!("holder"; name.as_str(), token, self.boot)).await?;
        let row = rows.pop().ok_or(sqlx::Error::RowNotFound)?;
        let is_ended: bool = row.try_get("is_ended")?;
        let is_live =
            !is_ended && row.try_get::<Option<&str>, _>("name")?.is_some() && self.is_live(&row)?;
        Ok((row, is_live, is_ended))
    }

    pub(super) async fn renew(&mut self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let renewed = self.renewed(&Vec::from_iter(claims)).await?;
        let mut renewals = Vec::with_capacity(claims.len());
        for claim in claims {
            let token = claim.token.to_string();
            renewals.push(if renewed.contains(&token) {
                Renewal::RENEWED
            } else {
                Renewal::not_held(self.why_not_held(&claim.name, &token).await?)
            });
        }
        Ok(renewals)
    }

    async fn renewed(&mut self, claims: &[&Claim]) -> Result<HashSet<String>> {
        let (alone, shared): (Vec<&Claim>, Vec<&Claim>) =
            claims.iter().partition(|claim| claim.mode == Mode::Exclusive);
        let mut renewed = HashSet::new();
        for (claims, renew) in [(&alone, query!("renew")), (&shared, query!("shared_renew"))] {
            if claims.is_empty() {
                continue;
            }
            let asked: Vec<_> = claims
                .iter()
                .map(|claim| (claim.name.as_str(), claim.token.to_string(), nanos(claim.ttl)))
                .collect();
            let renew = renew.bind(json(&asked)?).bind(stored(self.now)).bind(self.boot);
            for row in self.rows(renew).await? {
                renewed.insert(row.try_get("token")?);
            }
        }
        if !shared.is_empty() {
            let names: Vec<&str> = shared.iter().map(|claim| claim.name.as_str()).collect();
            self.keep(&names).await?;
        }
        Ok(renewed)
    }

    async fn why_not_held(&mut self, name: &LockName, token: &str) -> Result<Reason> {
        let row = self.row(query!("why_not_held"; name.as_str(), token)).await?;
        Ok(match (row.try_get("broken")?, row.try_get("ran_out")?) {
            (true, _) => Reason::Broken,
            (false, true) => Reason::Expired,
            (false, false) => Reason::Gone,
        })
    }

    /// Releases the hold. Returns `None` if there is none, and otherwise whether a waiter may
    /// acquire the name. An exclusive hold needs no transaction if `tombstone` is false.
    pub(super) async fn release(&mut self, claim: &Claim, tombstone: bool) -> Result<Option<bool>> {
        let token = claim.token.to_string();
        if tombstone {
            self.put_tombstone(&token, claim.ttl, None).await?;
        }
        self.end(&claim.name, &token, claim.mode).await
    }

    async fn end(&mut self, name: &LockName, token: &str, mode: Mode) -> Result<Option<bool>> {
        let mut gone = Vec::new();
        if mode == Mode::Exclusive {
            gone = self.rows(query!("release"; name.as_str(), token)).await?;
        }
        if gone.is_empty() {
            // The claim may be recorded as a waiting writer, among the shared holders.
            gone = self.rows(query!("shared_release"; name.as_str(), token)).await?;
        }
        if !gone.first().map_or(Ok(false), |gone| self.is_live(gone))? {
            return Ok(None);
        }
        if mode == Mode::Exclusive {
            Ok(Some(true))
        } else {
            self.leave(name, mode).await.map(Some)
        }
    }

    pub(super) async fn put_tombstone(
        &mut self,
        token: &str,
        least: Duration,
        broken: Option<&str>,
    ) -> Result<()> {
        let until = stored(self.now + least.max(TOMBSTONE));
        self.execute(query!("put_tombstone"; token, until, self.boot, broken)).await.map(drop)
    }

    pub(super) async fn break_lock(
        &mut self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        broken: &str,
    ) -> Result<Broken> {
        let mut longest = None;
        for row in self.holders(name).await? {
            let token: String = row.try_get("token")?;
            if matches!(seen, BreakTarget::Token(seen) if seen.to_string() != token) {
                continue;
            }
            let remaining = self.remaining(&row)?;
            longest = longest.max(Some(remaining));
            let mode = self.holder(&row)?.mode;
            if how == BreakMode::Now {
                self.end(name, &token, mode).await?;
                self.put_tombstone(&token, remaining, Some(broken)).await?;
                continue;
            }
            let mark = match mode {
                Mode::Exclusive => query!("break"),
                _ => query!("shared_break"),
            };
            self.execute(mark.bind(name.as_str()).bind(&token).bind(broken)).await?;
        }
        Ok(match (longest, how) {
            (None, _) => Broken::NotHeld,
            (Some(remaining), BreakMode::RunOut) => Broken::RunsOut(remaining),
            (Some(remaining), BreakMode::Now) => Broken::Freed(remaining),
        })
    }

    pub(super) async fn inspect(&mut self, name: &LockName) -> Result<Inspection> {
        let mut inspection = Inspection::free(name.clone());
        for row in self.holders(name).await? {
            self.show(&mut inspection, &row)?;
        }
        Ok(inspection)
    }

    pub(super) async fn list(&mut self, prefix: &str, after: Option<&Cursor>) -> Result<Page> {
        let from = after.map_or(prefix, |cursor| &cursor.0);
        let list = query!("list";
            from, after.is_none(), self.boot, stored(self.now), PAGE, None::<&str>
        );
        let rows = self.rows(list).await?;
        let mut page = Page::default();
        for row in &rows {
            let name: &str = row.try_get("name")?;
            if !name.starts_with(prefix) {
                return Ok(page);
            }
            if page.names.last().is_none_or(|last| last.name.as_str() != name) {
                page.names.push(Inspection::free(LockName::new(name).map_err(decode)?));
            }
            if let Some(inspection) = page.names.last_mut() {
                self.show(inspection, row)?;
            }
        }
        if page.names.len() as i64 == PAGE {
            page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
        }
        Ok(page)
    }

    pub(super) async fn held(&mut self, names: &[(LockName, u32)]) -> Result<HashSet<String>> {
        let held = query!("held"; json(names)?, self.boot, stored(self.now));
        self.rows(held).await?.iter().map(|row| row.try_get("name")).collect()
    }

    /// Deletes at most [`SWEEP`] rows of each table: holds that expired more than `idle` ago, and
    /// expired tombstones. Younger rows show a paused holder why it lost its hold.
    pub(super) async fn sweep(&mut self, idle: Duration) -> Result<SweepReport> {
        let (old, now) = (stored(self.now - idle), stored(self.now));
        let mut report = SweepReport::default();
        for sweep in [
            query!("sweep_leases"; self.boot, old, SWEEP),
            query!("sweep_shared"; self.boot, old, SWEEP),
            query!("sweep_tombstones"; self.boot, now, SWEEP),
        ] {
            let gone = self.execute(sweep).await?;
            report.rows += gone;
            report.more |= gone >= u64::from(SWEEP);
        }
        Ok(report)
    }

    pub(super) async fn rows(&mut self, query: Statement<'_>) -> Result<Vec<SqliteRow>> {
        query.fetch_all(&mut *self.connection).await
    }

    pub(super) async fn row(&mut self, query: Statement<'_>) -> Result<SqliteRow> {
        query.fetch_one(&mut *self.connection).await
    }

    pub(super) async fn execute(&mut self, query: Statement<'_>) -> Result<u64> {
        query.execute(&mut *self.connection).await.map(|done| done.rows_affected())
    }

    pub(super) async fn first_holder(&mut self, name: &LockName) -> Result<Option<Holder>> {
        self.holders(name).await?.first().map(|row| self.holder(row)).transpose()
    }

    async fn holders(&mut self, name: &LockName) -> Result<Vec<SqliteRow>> {
        let only = name.as_str();
        let list = query!("list"; only, true, self.boot, stored(self.now), 1, only);
        let rows = self.rows(list).await?;
        if rows.is_empty()
            && let (row, true, _) = self.seen(name, "").await?
        {
            // `present` returns an error if the row has an unknown kind of token.
            present(&row)?;
        }
        Ok(rows)
    }

    pub(super) fn holder(&self, row: &SqliteRow) -> Result<Holder> {
        let mut holder = Holder::new(row.try_get::<&str, _>("token")?.parse().ok());
        holder.identity = serde_json::from_str(row.try_get("identity")?).ok();
        let word: &str = row.try_get("mode")?;
        if word != "exclusive" {
            holder.mode = kind::mode(word, row.try_get("permits")?, row.try_get("size")?)
                .ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no mode").into()))?;
        }
        // For permits, the column `fence` is only the hold's number.
        if word != "permits" {
            holder.fence = Some(fence(row)?);
        }
        holder.remaining = Some(self.remaining(row)?);
        holder.broken = row.try_get("broken")?;
        if let Ok(granted) = instant(row, "granted_ns") {
            holder.set_granted(granted, self.now);
        }
        Ok(holder)
    }

    fn show(&self, inspection: &mut Inspection, row: &SqliteRow) -> Result<()> {
        let holder = self.holder(row)?;
        let reserved: u64 = row.try_get::<i64, _>("fences")?.try_into().map_err(decode)?;
        inspection.fence =
            holder.fence.map(|first| Fence::new(first.get().saturating_add(reserved.max(1) - 1)));
        inspection.holders.push(holder);
        Ok(())
    }
}

fn present(row: &SqliteRow) -> Result<Mode> {
    let token: &str = row.try_get("token")?;
    kind::present(token).ok_or_else(|| sqlx::Error::Decode(format!("{token:?} is no token").into()))
}

fn grant(row: &SqliteRow) -> Result<Granted> {
    let mut granted = Granted::new(fence(row)?);
    granted.fences = row.try_get("fences")?;
    Ok(granted)
}

fn fence(row: &SqliteRow) -> Result<Fence> {
    Ok(Fence::new(row.try_get::<i64, _>("fence")?.try_into().map_err(decode)?))
}

fn expires(row: &SqliteRow) -> Result<BootInstant> {
    instant(row, "expires_ns")
}

fn instant(row: &SqliteRow, column: &str) -> Result<BootInstant> {
    let nanos: i64 = row.try_get(column)?;
    Ok(BootInstant::from_nanos(nanos.try_into().map_err(decode)?))
}

pub(super) fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|e| sqlx::Error::Encode(e.into()))
}

pub(super) fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

pub(super) fn stored(instant: BootInstant) -> i64 {
    i64::try_from(instant.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_query_exists() {
        let code = concat!(
            include_str!("doctor.rs"),
            include_str!("fencing.rs"),
            include_str!("shared_holders.rs"),
            include_str!("statements.rs")
        );
        for call in code.split("query!(\"").skip(1) {
            crate::queries::find(super::QUERIES, call.split('"').next().unwrap());
        }
    }
}
