//! The operations on rows, without waits or retries.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Claim, Cursor, Fence,
    Granted, Holder, Inspection, LockName, Mode, Page, Reason, ReleaseOutcome, Renewal,
    SweepReport, Token,
};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqliteRow};
use sqlx::{Database, Result, Row};

use super::shared_holders::present;
use crate::kind;
use crate::queries::files;

pub(super) const QUERIES: &str =
    files!("acquire", "break", "check_fence", "inspect", "release", "renew", "swap", "sweep");

/// The query with this name, with its parameters in order.
macro_rules! query {
    ($name:literal $(; $($value:expr),+)?) => {
        sqlx::query(const { crate::queries::find(crate::sqlite::statements::QUERIES, $name) })
            $($(.bind($value))+)?
    };
}
pub(super) use query;

/// The minimum time for which a tombstone is kept.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

const PAGE: i64 = 200;

const SWEEP: u32 = 200;

pub(super) type Statement<'q> = Query<'q, Sqlite, <Sqlite as Database>::Arguments>;

/// The tables at the instant `now`. Most operations need a transaction, within which `now` was
/// read.
pub(super) struct Tables<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) now: BootInstant,
    pub(super) boot: &'a str,
}

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) claim: Claim,
    pub(super) identity: String,
    /// True if the caller retries until the claim is granted.
    pub(super) waits: bool,
}

pub(super) type Asked<'a> = (&'a str, String, i64);

#[derive(Debug)]
pub(super) enum Acquired {
    Outcome(AcquireOutcome),
    /// The token has a tombstone.
    Ended,
    OtherKind(Mode),
    /// The token already holds the name, or the name has just become free. A transaction must
    /// decide.
    Again,
}

impl Acquired {
    pub(super) fn granted(granted: Granted) -> Self {
        Self::Outcome(AcquireOutcome::Granted(granted))
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

    /// Acquires the name. Outside a transaction, `now` is read before SQLite takes the write lock.
    /// That is safe for a grant: a hold expired at `now` is still expired, and the new hold expires
    /// no earlier than one TTL after the request's start. An existing hold is renewed only in a
    /// transaction, because it may have expired since `now`.
    pub(super) async fn acquire(
        &mut self,
        asked: &Acquire,
        in_transaction: bool,
    ) -> Result<Acquired> {
        let claim = &asked.claim;
        if claim.mode != Mode::Exclusive {
            return self.acquire_shared(asked).await;
        }
        let token = claim.token.to_string();
        let acquire = query!("acquire";
            claim.name.as_str(), &token, &asked.identity, i64::from(claim.fences.max(1)),
            nanos(claim.ttl), self.boot, stored(self.now)
        );
        if let Some(row) = self.rows(acquire).await?.first() {
            return Ok(Acquired::granted(grant(row)?));
        }

        let (row, is_live, is_ended) = self.seen(&claim.name, Some(&token)).await?;
        if is_ended {
            return Ok(Acquired::Ended);
        }
        if !is_live {
            return Ok(Acquired::Again);
        }
        let present = present(&row)?;
        if !present.is_of_the_kind_of(claim.mode) {
            return Ok(Acquired::OtherKind(present));
        }
        if present == Mode::Shared {
            if asked.waits {
                self.wait(asked, row.try_get("fence")?).await?;
            }
            let first = self.first_shared(&claim.name).await?;
            return Ok(Acquired::busy(Some(self.remaining(&row)?), first, asked.waits));
        }
        if row.try_get::<&str, _>("token")? != token {
            let holder = self.holder(&row)?;
            return Ok(Acquired::busy(Some(self.remaining(&row)?), Some(holder), false));
        }
        if in_transaction { self.again(claim, &row).await } else { Ok(Acquired::Again) }
    }

    async fn again(&mut self, claim: &Claim, row: &SqliteRow) -> Result<Acquired> {
        let rearm = query!("rearm";
            claim.name.as_str(), claim.token.to_string(), nanos(claim.ttl),
            stored(self.now + claim.ttl), self.boot, stored(self.now)
        );
        let mut granted = grant(row)?;
        if self.execute(rearm).await? == 0 {
            granted.valid = Some(self.remaining(row)?);
        }
        Ok(Acquired::granted(granted))
    }

    pub(super) async fn swap(&mut self, from: Token, asked: &Acquire) -> Result<Acquired> {
        let claim = &asked.claim;
        if claim.mode != Mode::Exclusive {
            return self.swap_shared(from, asked).await;
        }
        let (from, token) = (from.to_string(), claim.token.to_string());
        let (row, is_live, is_ended) = self.seen(&claim.name, Some(&token)).await?;
        if is_ended {
            return Ok(Acquired::Ended);
        }
        if is_live && row.try_get::<&str, _>("token")? == token {
            return self.again(claim, &row).await;
        }
        let swap = query!("swap";
            claim.name.as_str(), &from, &token, &asked.identity, nanos(claim.ttl), self.boot,
            stored(self.now)
        );
        let swapped = self.rows(swap).await?;
        let Some(row) = swapped.first() else { return Ok(Acquired::busy(None, None, false)) };
        self.put_tombstone(&from, claim.ttl, None).await?;
        Ok(Acquired::granted(grant(row)?))
    }

    /// Returns the name's row, whether it has an unexpired hold, and whether the token has a
    /// tombstone. With a tombstone, the second value is false.
    pub(super) async fn seen(
        &mut self,
        name: &LockName,
        token: Option<&str>,
    ) -> Result<(SqliteRow, bool, bool)> {
        let mut rows = self.rows(query!("holder"; name.as_str(), token, self.boot)).await?;
        let row = rows.pop().ok_or(sqlx::Error::RowNotFound)?;
        let is_ended: bool = row.try_get("is_ended")?;
        let is_live =
            !is_ended && row.try_get::<Option<&str>, _>("name")?.is_some() && self.is_live(&row)?;
        Ok((row, is_live, is_ended))
    }

    pub(super) async fn renew(&mut self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        let (alone, shared): (Vec<&Claim>, Vec<&Claim>) =
            claims.iter().partition(|claim| claim.mode == Mode::Exclusive);
        let mut renewed = HashSet::new();
        if !alone.is_empty() {
            let alone: Vec<Asked<'_>> = alone.into_iter().map(to_renew).collect();
            let renew = query!("renew"; json(&alone)?, stored(self.now), self.boot);
            for row in self.rows(renew).await? {
                renewed.insert(row.try_get("token")?);
            }
        }
        if !shared.is_empty() {
            let shared: Vec<Asked<'_>> = shared.into_iter().map(to_renew).collect();
            self.renew_shared(&shared, &mut renewed).await?;
        }
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

    async fn why_not_held(&mut self, name: &LockName, token: &str) -> Result<Reason> {
        let row = self.row(query!("why_not_held"; name.as_str(), token)).await?;
        Ok(match (row.try_get("broken")?, row.try_get("ran_out")?) {
            (true, _) => Reason::Broken,
            (false, true) => Reason::Expired,
            (false, false) => Reason::Gone,
        })
    }

    /// Releases the hold. Also returns whether a waiter may now acquire the name. Needs no
    /// transaction for an exclusive hold without a `tombstone`.
    pub(super) async fn release(
        &mut self,
        claim: &Claim,
        tombstone: bool,
    ) -> Result<(ReleaseOutcome, bool)> {
        let (name, token) = (&claim.name, claim.token.to_string());
        if tombstone {
            self.put_tombstone(&token, claim.ttl, None).await?;
        }
        if claim.mode != Mode::Exclusive {
            return self.release_shared(name, claim.token, claim.mode).await;
        }
        let mut gone = self.remove(name, &token).await?.pop();
        if gone.is_none() {
            // The claim may be recorded as a waiting writer.
            gone = self.remove_shared(name, claim.token).await?;
        }
        let released = gone.map_or(Ok(false), |gone| self.is_live(&gone))?;
        Ok((if released { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }, released))
    }

    async fn remove(&mut self, name: &LockName, token: &str) -> Result<Vec<SqliteRow>> {
        self.rows(query!("release"; name.as_str(), token)).await
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
            let is_alone = row.try_get::<&str, _>("mode")? == "exclusive";
            match (how, is_alone) {
                (BreakMode::RunOut, _) => {
                    let mark = match is_alone {
                        true => query!("break"; name.as_str(), &token, broken),
                        false => query!("shared_break"; name.as_str(), &token, broken),
                    };
                    self.execute(mark).await?;
                    continue;
                }
                (BreakMode::Now, true) => drop(self.remove(name, &token).await?),
                (BreakMode::Now, false) => {
                    let mode = self.holder(&row)?.mode;
                    let token = token.parse().map_err(decode)?;
                    self.release_shared(name, token, mode).await?;
                }
            }
            self.put_tombstone(&token, remaining, Some(broken)).await?;
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
        let list = query!("list"; from, after.is_none(), self.boot, stored(self.now), PAGE);
        let rows = self.rows(list).await?;
        let mut page = Page::default();
        for row in &rows {
            let name: &str = row.try_get("name")?;
            if !name.starts_with(prefix) {
                // The names are in byte order, so no later name has the prefix.
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

    pub(super) async fn held(&mut self, names: &[LockName]) -> Result<HashSet<String>> {
        let held = query!("held"; json(names)?, self.boot, stored(self.now));
        self.rows(held).await?.iter().map(|row| row.try_get("name")).collect()
    }

    /// Deletes at most [`SWEEP`] rows of each table: holds that expired more than `idle` ago, and
    /// expired tombstones. Younger rows stay to show a paused holder why it lost its hold.
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

    async fn holders(&mut self, name: &LockName) -> Result<Vec<SqliteRow>> {
        let (row, is_live, _) = self.seen(name, None).await?;
        if !is_live {
            return Ok(Vec::new());
        }
        match present(&row)? {
            Mode::Exclusive => Ok(vec![row]),
            _ => self.shared_holders(name).await,
        }
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

pub(super) fn to_renew(claim: &Claim) -> Asked<'_> {
    (claim.name.as_str(), claim.token.to_string(), nanos(claim.ttl))
}

fn grant(row: &SqliteRow) -> Result<Granted> {
    let mut granted = Granted::new(fence(row)?);
    granted.fences = row.try_get("fences")?;
    Ok(granted)
}

fn fence(row: &SqliteRow) -> Result<Fence> {
    Ok(Fence::new(row.try_get::<i64, _>("fence")?.try_into().map_err(decode)?))
}

pub(super) fn expires(row: &SqliteRow) -> Result<BootInstant> {
    let nanos: i64 = row.try_get("expires_ns")?;
    Ok(BootInstant::from_nanos(nanos.try_into().map_err(decode)?))
}

pub(super) fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|e| sqlx::Error::Encode(e.into()))
}

pub(super) fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// Returns nanoseconds as `i64`, because SQLite's integers are signed.
pub(super) fn stored(instant: BootInstant) -> i64 {
    i64::try_from(instant.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
