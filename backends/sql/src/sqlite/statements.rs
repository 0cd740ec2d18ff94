//! The operations on rows, without waits or retries.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Cursor, Fence, Granted,
    Holder, Inspection, LockName, Mode, Page, Reason, ReleaseOutcome, Renewal, SweepReport, Token,
};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Result, Row};

use super::shared_holders;
use crate::kind;

macro_rules! query {
    ($file:literal, $name:literal) => {
        sqlx::query(crate::queries::query!(concat!("queries/", $file, ".sql"), $name))
    };
}
pub(super) use query;

/// The minimum time for which a tombstone is kept.
pub(super) const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

const PAGE: i64 = 200;

#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) now: BootInstant,
    pub(super) boot: &'a str,
}

impl Moment<'_> {
    pub(super) fn is_live(&self, row: &SqliteRow) -> Result<bool> {
        Ok(row.try_get::<&str, _>("boot")? == self.boot && expires(row)? > self.now)
    }

    pub(super) fn remaining(&self, row: &SqliteRow) -> Result<Duration> {
        Ok(expires(row)?.saturating_since(self.now))
    }
}

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) name: LockName,
    pub(super) mode: Mode,
    pub(super) token: Token,
    pub(super) identity: String,
    pub(super) fences: u32,
    pub(super) ttl: Duration,
    /// True if the caller retries until the claim is granted.
    pub(super) waits: bool,
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) name: LockName,
    pub(super) mode: Mode,
    pub(super) token: Token,
    pub(super) ttl: Duration,
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

/// Acquires the name. Outside a transaction, `at` is older than the write lock, which is safe. A
/// row that had expired by `at` is still expired, and the new expiry is no earlier than the
/// request's start plus the TTL. Only a transaction may renew an existing hold, because the hold
/// may have just expired.
pub(super) async fn acquire(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    at: Moment<'_>,
    in_transaction: bool,
) -> Result<Acquired> {
    let token = asked.token.to_string();
    let granted = query!("acquire", "acquire")
        .bind(asked.name.as_str())
        .bind(&token)
        .bind(&asked.identity)
        .bind(i64::from(asked.fences.max(1)))
        .bind(nanos(asked.ttl))
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_all(&mut *connection)
        .await?;
    if let Some(row) = granted.first() {
        return Ok(Acquired::Outcome(AcquireOutcome::Granted(grant(row)?)));
    }

    let row = seen(connection, asked, at).await?;
    if row.try_get("is_ended")? {
        return Ok(Acquired::Ended);
    }
    if row.try_get::<Option<&str>, _>("name")?.is_none() || !at.is_live(&row)? {
        return Ok(Acquired::Again);
    }
    let present = shared_holders::present(&row)?;
    if !present.is_of_the_kind_of(asked.mode) {
        return Ok(Acquired::OtherKind(present));
    }
    if present == Mode::Shared {
        if asked.waits {
            shared_holders::wait(connection, asked, &row, at).await?;
        }
        return Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy {
            retry_after: Some(at.remaining(&row)?),
            holder: shared_holders::first(connection, &asked.name, at).await?,
            queued: asked.waits,
        })));
    }
    if row.try_get::<&str, _>("token")? != token {
        return Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy {
            retry_after: Some(at.remaining(&row)?),
            holder: Some(Box::new(holder(&row, at)?)),
            queued: false,
        })));
    }
    if !in_transaction {
        return Ok(Acquired::Again);
    }
    Ok(Acquired::Outcome(AcquireOutcome::Granted(again(connection, asked, &row, at).await?)))
}

async fn again(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    row: &SqliteRow,
    at: Moment<'_>,
) -> Result<Granted> {
    let rearmed = query!("acquire", "rearm")
        .bind(asked.name.as_str())
        .bind(asked.token.to_string())
        .bind(nanos(asked.ttl))
        .bind(stored(at.now + asked.ttl))
        .bind(at.boot)
        .bind(stored(at.now))
        .execute(connection)
        .await?;
    let mut granted = grant(row)?;
    if rearmed.rows_affected() == 0 {
        granted.valid = Some(at.remaining(row)?);
    }
    Ok(granted)
}

/// Transfers a hold. Needs a transaction, and a clock reading `at` within it.
pub(super) async fn swap(
    connection: &mut SqliteConnection,
    from: Token,
    asked: &Acquire,
    at: Moment<'_>,
) -> Result<Acquired> {
    if asked.mode != Mode::Exclusive {
        return shared_holders::swap(connection, from, asked, at).await;
    }
    let (from, token) = (from.to_string(), asked.token.to_string());
    let row = seen(connection, asked, at).await?;
    if row.try_get("is_ended")? {
        return Ok(Acquired::Ended);
    }
    let is_live = row.try_get::<Option<&str>, _>("name")?.is_some() && at.is_live(&row)?;
    if is_live && row.try_get::<&str, _>("token")? == token {
        return Ok(Acquired::Outcome(AcquireOutcome::Granted(
            again(connection, asked, &row, at).await?,
        )));
    }
    let swapped = query!("swap", "swap")
        .bind(asked.name.as_str())
        .bind(&from)
        .bind(&token)
        .bind(&asked.identity)
        .bind(nanos(asked.ttl))
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_all(&mut *connection)
        .await?;
    let Some(row) = swapped.first() else {
        return Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy::default())));
    };
    put_tombstone(connection, &from, at.now + asked.ttl.max(TOMBSTONE), at.boot, None).await?;
    Ok(Acquired::Outcome(AcquireOutcome::Granted(grant(row)?)))
}

/// Returns the name's row, and whether the token has a tombstone.
pub(super) async fn seen(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    at: Moment<'_>,
) -> Result<SqliteRow> {
    query!("acquire", "holder")
        .bind(asked.name.as_str())
        .bind(asked.token.to_string())
        .bind(at.boot)
        .fetch_all(connection)
        .await?
        .pop()
        .ok_or(sqlx::Error::RowNotFound)
}

/// Renews holds. Needs a transaction, and a clock reading `at` within it.
pub(super) async fn renew(
    connection: &mut SqliteConnection,
    holds: &[Hold],
    at: Moment<'_>,
) -> Result<Vec<Renewal>> {
    fn asked(hold: &Hold) -> Asked<'_> {
        (hold.name.as_str(), hold.token.to_string(), nanos(hold.ttl))
    }
    let (alone, several): (Vec<&Hold>, Vec<&Hold>) =
        holds.iter().partition(|hold| hold.mode == Mode::Exclusive);
    let mut renewed = HashSet::new();
    if !alone.is_empty() {
        let alone: Vec<Asked<'_>> = alone.into_iter().map(asked).collect();
        let rows = query!("renew", "renew")
            .bind(json(&alone)?)
            .bind(stored(at.now))
            .bind(at.boot)
            .fetch_all(&mut *connection)
            .await?;
        for row in &rows {
            renewed.insert(row.try_get("token")?);
        }
    }
    if !several.is_empty() {
        let several: Vec<Asked<'_>> = several.into_iter().map(asked).collect();
        shared_holders::renew(connection, &several, at, &mut renewed).await?;
    }
    let mut renewals = Vec::with_capacity(holds.len());
    for hold in holds {
        let token = hold.token.to_string();
        renewals.push(if renewed.contains(&token) {
            Renewal::RENEWED
        } else {
            Renewal::not_held(why_not_held(connection, hold.name.as_str(), &token).await?)
        });
    }
    Ok(renewals)
}

async fn why_not_held(
    connection: &mut SqliteConnection,
    name: &str,
    token: &str,
) -> Result<Reason> {
    let row = query!("renew", "why_not_held").bind(name).bind(token).fetch_one(connection).await?;
    Ok(match (row.try_get("broken")?, row.try_get("ran_out")?) {
        (true, _) => Reason::Broken,
        (false, true) => Reason::Expired,
        (false, false) => Reason::Gone,
    })
}

/// Releases the hold. Also returns whether that may admit a waiter. Needs a transaction for a
/// `tombstone` or a shared hold.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    hold: &Hold,
    tombstone: bool,
    at: Moment<'_>,
) -> Result<(ReleaseOutcome, bool)> {
    let token = hold.token.to_string();
    if tombstone {
        put_tombstone(connection, &token, at.now + hold.ttl.max(TOMBSTONE), at.boot, None).await?;
    }
    if hold.mode != Mode::Exclusive {
        return shared_holders::release(connection, hold, at).await;
    }
    let ended = query!("release", "release")
        .bind(hold.name.as_str())
        .bind(&token)
        .fetch_all(&mut *connection)
        .await?;
    let released = match ended.first() {
        Some(row) => at.is_live(row)?,
        // The claim may be recorded as a waiting writer.
        None => shared_holders::withdraw(connection, hold, at).await?,
    };
    Ok((if released { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }, released))
}

pub(super) async fn put_tombstone(
    connection: &mut SqliteConnection,
    token: &str,
    until: BootInstant,
    boot: &str,
    broken: Option<&str>,
) -> Result<()> {
    query!("release", "put_tombstone")
        .bind(token)
        .bind(stored(until))
        .bind(boot)
        .bind(broken)
        .execute(connection)
        .await
        .map(drop)
}

pub(super) async fn break_lock(
    connection: &mut SqliteConnection,
    name: &LockName,
    seen: BreakTarget,
    how: BreakMode,
    broken: &str,
    at: Moment<'_>,
) -> Result<Broken> {
    let mut longest = None;
    for row in holders(connection, name, at).await? {
        let token: String = row.try_get("token")?;
        if matches!(seen, BreakTarget::Token(seen) if seen.to_string() != token) {
            continue;
        }
        let remaining = at.remaining(&row)?;
        longest = longest.max(Some(remaining));
        let is_alone = row.try_get::<&str, _>("mode")? == "exclusive";
        if how == BreakMode::RunOut {
            let mark =
                if is_alone { query!("break", "break") } else { query!("break", "shared_break") };
            mark.bind(name.as_str()).bind(&token).bind(broken).execute(&mut *connection).await?;
            continue;
        }
        if is_alone {
            query!("release", "release")
                .bind(name.as_str())
                .bind(&token)
                .fetch_all(&mut *connection)
                .await?;
        } else {
            let mode = holder(&row, at)?.mode;
            let token = token.parse().map_err(decode)?;
            let hold = Hold { name: name.clone(), mode, token, ttl: Duration::ZERO };
            shared_holders::release(connection, &hold, at).await?;
        }
        let until = at.now + remaining.max(TOMBSTONE);
        put_tombstone(connection, &token, until, at.boot, Some(broken)).await?;
    }
    Ok(match (longest, how) {
        (None, _) => Broken::NotHeld,
        (Some(remaining), BreakMode::RunOut) => Broken::RunsOut(remaining),
        (Some(remaining), BreakMode::Now) => Broken::Freed(remaining),
    })
}

pub(super) async fn inspect(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Inspection> {
    let mut inspection = Inspection::free(name.clone());
    for row in holders(connection, name, at).await? {
        show(&mut inspection, &row, at)?;
    }
    Ok(inspection)
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    prefix: &str,
    after: Option<&Cursor>,
    at: Moment<'_>,
) -> Result<Page> {
    let from = after.map_or(prefix, |cursor| &cursor.0);
    let rows = query!("inspect", "list")
        .bind(from)
        .bind(after.is_none())
        .bind(at.boot)
        .bind(stored(at.now))
        .bind(PAGE)
        .fetch_all(connection)
        .await?;
    let mut page = Page::default();
    for row in &rows {
        let name: &str = row.try_get("name")?;
        if !name.starts_with(prefix) {
            // In byte order, names with the prefix are contiguous.
            return Ok(page);
        }
        if page.names.last().is_none_or(|last| last.name.as_str() != name) {
            page.names.push(Inspection::free(LockName::new(name).map_err(decode)?));
        }
        if let Some(inspection) = page.names.last_mut() {
            show(inspection, row, at)?;
        }
    }
    if page.names.len() as i64 == PAGE {
        page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
    }
    Ok(page)
}

pub(super) async fn held(
    connection: &mut SqliteConnection,
    names: &[LockName],
    at: Moment<'_>,
) -> Result<HashSet<String>> {
    query!("acquire", "held")
        .bind(json(names)?)
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_all(connection)
        .await?
        .iter()
        .map(|row| row.try_get("name"))
        .collect()
}

/// Deletes at most `limit` rows of each table: holds that expired more than `idle` ago, and expired
/// tombstones. Younger rows stay to show a paused holder why it lost its hold.
pub(super) async fn sweep(
    connection: &mut SqliteConnection,
    idle: Duration,
    limit: u32,
    at: Moment<'_>,
) -> Result<SweepReport> {
    let leases = query!("sweep", "sweep_leases")
        .bind(at.boot)
        .bind(stored(at.now - idle))
        .bind(limit)
        .execute(&mut *connection)
        .await?;
    let shared = query!("sweep", "sweep_shared")
        .bind(at.boot)
        .bind(stored(at.now - idle))
        .bind(limit)
        .execute(&mut *connection)
        .await?;
    let tombstones = query!("sweep", "sweep_tombstones")
        .bind(at.boot)
        .bind(stored(at.now))
        .bind(limit)
        .execute(connection)
        .await?;
    let gone = [leases, shared, tombstones].map(|gone| gone.rows_affected());
    let more = gone.into_iter().any(|gone| gone >= u64::from(limit));
    Ok(SweepReport { rows: gone.into_iter().sum(), more })
}

async fn holders(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Vec<SqliteRow>> {
    let row = query!("acquire", "holder")
        .bind(name.as_str())
        .bind(None::<&str>)
        .bind(at.boot)
        .fetch_all(&mut *connection)
        .await?
        .pop()
        .ok_or(sqlx::Error::RowNotFound)?;
    if row.try_get::<Option<&str>, _>("name")?.is_none() || !at.is_live(&row)? {
        return Ok(Vec::new());
    }
    match shared_holders::present(&row)? {
        Mode::Exclusive => Ok(vec![row]),
        _ => shared_holders::holders(connection, name, at).await,
    }
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

pub(super) fn holder(row: &SqliteRow, at: Moment<'_>) -> Result<Holder> {
    let mut holder = Holder::new(row.try_get::<&str, _>("token")?.parse().ok());
    holder.identity = serde_json::from_str(row.try_get("identity")?).ok();
    let word: &str = row.try_get("mode")?;
    if word != "exclusive" {
        holder.mode = kind::mode(word, row.try_get("permits")?, row.try_get("size")?)
            .ok_or_else(|| sqlx::Error::Decode(format!("{word:?} is no mode").into()))?;
    }
    // The `fence` of permits only numbers the hold.
    if word != "permits" {
        holder.fence = Some(fence(row)?);
    }
    holder.remaining = Some(at.remaining(row)?);
    holder.broken = row.try_get("broken")?;
    Ok(holder)
}

fn show(inspection: &mut Inspection, row: &SqliteRow, at: Moment<'_>) -> Result<()> {
    let holder = holder(row, at)?;
    let reserved: u64 = row.try_get::<i64, _>("fences")?.try_into().map_err(decode)?;
    inspection.fence =
        holder.fence.map(|first| Fence::new(first.get().saturating_add(reserved.max(1) - 1)));
    inspection.holders.push(holder);
    Ok(())
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
