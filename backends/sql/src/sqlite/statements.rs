//! One function for each thing that is done to the rows. None of them waits or retries.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    Attempt, BootInstant, BreakHow, Broken, Busy, Cursor, Ended, Fence, Granted, Holder,
    Inspection, LockName, Page, Reason, Renewal, Seen, Swept, Token,
};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Result, Row};

macro_rules! query {
    ($file:literal) => {
        sqlx::query(include_str!(concat!("queries/", $file, ".sql")))
    };
}

/// For how long a tombstone stands at least.
const TOMBSTONE: Duration = Duration::from_secs(60 * 60);

/// How many names a page of a listing has.
const PAGE: i64 = 200;

/// The time and the boot that a statement goes by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) now: BootInstant,
    pub(super) boot: &'a str,
}

impl Moment<'_> {
    fn is_live(&self, row: &SqliteRow) -> Result<bool> {
        Ok(row.try_get::<&str, _>("boot")? == self.boot && expires(row)? > self.now)
    }

    fn remaining(&self, row: &SqliteRow) -> Result<Duration> {
        Ok(expires(row)?.saturating_since(self.now))
    }
}

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) name: LockName,
    pub(super) token: Token,
    pub(super) identity: String,
    pub(super) fences: u32,
    pub(super) ttl: Duration,
}

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) name: LockName,
    pub(super) token: Token,
    pub(super) ttl: Duration,
}

/// What became of an [`acquire`].
#[derive(Debug)]
pub(super) enum Acquired {
    Attempt(Attempt),
    /// The token was released, or broken at once: it is never granted again.
    Buried,
    /// The hold is there already, or the name came free in between: to be decided in a
    /// transaction.
    Again,
}

/// Grants the name if it is free.
///
/// Outside of a transaction `at` is older than the write lock. That can't hurt: a row that had run
/// out then has run out now, and the new expiry is still no earlier than the send plus the TTL.
/// What it could do, take a hold that has just run out for a live one and re-arm it, is left to
/// the transaction.
pub(super) async fn acquire(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    at: Moment<'_>,
    in_transaction: bool,
) -> Result<Acquired> {
    let token = asked.token.to_string();
    let granted = query!("acquire")
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
        return Ok(Acquired::Attempt(Attempt::Granted(grant(row)?)));
    }

    let row = query!("holder")
        .bind(asked.name.as_str())
        .bind(&token)
        .bind(at.boot)
        .fetch_all(&mut *connection)
        .await?
        .pop()
        .ok_or(sqlx::Error::RowNotFound)?;
    if row.try_get("buried")? {
        return Ok(Acquired::Buried);
    }
    if row.try_get::<Option<&str>, _>("name")?.is_none() || !at.is_live(&row)? {
        return Ok(Acquired::Again);
    }
    if row.try_get::<&str, _>("token")? != token {
        return Ok(Acquired::Attempt(Attempt::Busy(Busy {
            retry_after: Some(at.remaining(&row)?),
            holder: Some(Box::new(holder(&row, at)?)),
            queued: false,
        })));
    }
    if !in_transaction {
        return Ok(Acquired::Again);
    }
    let rearmed = query!("rearm")
        .bind(asked.name.as_str())
        .bind(&token)
        .bind(nanos(asked.ttl))
        .bind(stored(at.now + asked.ttl))
        .bind(at.boot)
        .bind(stored(at.now))
        .execute(connection)
        .await?;
    let mut granted = grant(&row)?;
    if rearmed.rows_affected() == 0 {
        // Broken: it runs out as it would have.
        granted.valid = Some(at.remaining(&row)?);
    }
    Ok(Acquired::Attempt(Attempt::Granted(granted)))
}

/// Re-arms what is still held. In a transaction, with a moment from inside of it.
pub(super) async fn renew(
    connection: &mut SqliteConnection,
    holds: &[Hold],
    at: Moment<'_>,
) -> Result<Vec<Renewal>> {
    let asked: Vec<_> = holds
        .iter()
        .map(|hold| (hold.name.as_str(), hold.token.to_string(), nanos(hold.ttl)))
        .collect();
    let renewed: HashSet<String> = query!("renew")
        .bind(json(&asked)?)
        .bind(stored(at.now))
        .bind(at.boot)
        .fetch_all(&mut *connection)
        .await?
        .iter()
        .map(|row| row.try_get("token"))
        .collect::<Result<_>>()?;
    let mut renewals = Vec::with_capacity(holds.len());
    for (name, token, _) in &asked {
        renewals.push(if renewed.contains(token) {
            Renewal::RENEWED
        } else {
            Renewal::not_held(why_not_held(connection, name, token).await?)
        });
    }
    Ok(renewals)
}

async fn why_not_held(
    connection: &mut SqliteConnection,
    name: &str,
    token: &str,
) -> Result<Reason> {
    let row = query!("why_not_held").bind(name).bind(token).fetch_one(connection).await?;
    Ok(match (row.try_get("broken")?, row.try_get("ran_out")?) {
        (true, _) => Reason::Broken,
        (false, true) => Reason::Expired,
        (false, false) => Reason::Gone,
    })
}

/// Ends a hold. With a tombstone it takes two statements, so it needs a transaction then.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    hold: &Hold,
    tombstone: bool,
    at: Moment<'_>,
) -> Result<Ended> {
    let token = hold.token.to_string();
    let ended =
        query!("release").bind(hold.name.as_str()).bind(&token).fetch_all(&mut *connection).await?;
    if tombstone {
        bury(connection, &token, at.now + hold.ttl.max(TOMBSTONE), at.boot, None).await?;
    }
    match ended.first() {
        Some(row) if at.is_live(row)? => Ok(Ended::Released),
        _ => Ok(Ended::NotHeld),
    }
}

async fn bury(
    connection: &mut SqliteConnection,
    token: &str,
    until: BootInstant,
    boot: &str,
    broken: Option<&str>,
) -> Result<()> {
    query!("bury")
        .bind(token)
        .bind(stored(until))
        .bind(boot)
        .bind(broken)
        .execute(connection)
        .await
        .map(drop)
}

/// Breaks the hold that was seen. In a transaction.
pub(super) async fn break_lock(
    connection: &mut SqliteConnection,
    name: &LockName,
    seen: Seen,
    how: BreakHow,
    broken: &str,
    at: Moment<'_>,
) -> Result<Broken> {
    let Some(row) = live_row(connection, name, at).await? else {
        return Ok(Broken::NotHeld);
    };
    let token: String = row.try_get("token")?;
    if matches!(seen, Seen::Token(seen) if seen.to_string() != token) {
        return Ok(Broken::NotHeld);
    }
    let remaining = at.remaining(&row)?;
    Ok(match how {
        BreakHow::RunOut => {
            query!("break")
                .bind(name.as_str())
                .bind(&token)
                .bind(broken)
                .execute(connection)
                .await?;
            Broken::RunsOut(remaining)
        }
        BreakHow::Now => {
            query!("release").bind(name.as_str()).bind(&token).fetch_all(&mut *connection).await?;
            // Tells the holder at its next renewal, and keeps a repeat of its claim out.
            let until = at.now + remaining.max(TOMBSTONE);
            bury(connection, &token, until, at.boot, Some(broken)).await?;
            Broken::Freed(remaining)
        }
    })
}

/// Who holds a name.
pub(super) async fn inspect(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Inspection> {
    match live_row(connection, name, at).await? {
        Some(row) => inspection(&row, at),
        None => Ok(Inspection::free(name.clone())),
    }
}

/// One page of the held names with a prefix.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    prefix: &str,
    after: Option<&Cursor>,
    at: Moment<'_>,
) -> Result<Page> {
    let from = after.map_or(prefix, |cursor| &cursor.0);
    let rows = query!("list")
        .bind(from)
        .bind(after.is_none())
        .bind(at.boot)
        .bind(stored(at.now))
        .bind(PAGE)
        .fetch_all(connection)
        .await?;
    let full = rows.len() as i64 == PAGE;
    let mut page = Page::default();
    for row in &rows {
        if !row.try_get::<&str, _>("name")?.starts_with(prefix) {
            // Names are in byte order, so those with the prefix stand together.
            return Ok(page);
        }
        page.names.push(inspection(row, at)?);
    }
    if full {
        page.next = page.names.last().map(|last| Cursor(last.name.as_str().to_owned()));
    }
    Ok(page)
}

/// Which of the names are held.
pub(super) async fn held(
    connection: &mut SqliteConnection,
    names: &[LockName],
    at: Moment<'_>,
) -> Result<HashSet<String>> {
    query!("held")
        .bind(json(names)?)
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_all(connection)
        .await?
        .iter()
        .map(|row| row.try_get("name"))
        .collect()
}

/// Deletes what nobody needs any more: rows that ran out so long ago (until then they tell a holder
/// that was paused why it lost its hold), and tombstones whose time is over. At most so many rows
/// of a kind; answers how many went, and whether there was more.
pub(super) async fn sweep(
    connection: &mut SqliteConnection,
    idle: Duration,
    limit: u32,
    at: Moment<'_>,
) -> Result<Swept> {
    let leases = query!("sweep_leases")
        .bind(at.boot)
        .bind(stored(at.now - idle))
        .bind(limit)
        .execute(&mut *connection)
        .await?;
    let tombstones = query!("sweep_tombstones")
        .bind(at.boot)
        .bind(stored(at.now))
        .bind(limit)
        .execute(connection)
        .await?;
    let (leases, tombstones) = (leases.rows_affected(), tombstones.rows_affected());
    Ok(Swept { rows: leases + tombstones, more: leases.max(tombstones) >= u64::from(limit) })
}

async fn live_row(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Option<SqliteRow>> {
    let row = query!("holder")
        .bind(name.as_str())
        .bind(None::<&str>)
        .bind(at.boot)
        .fetch_all(connection)
        .await?
        .pop()
        .ok_or(sqlx::Error::RowNotFound)?;
    let found = row.try_get::<Option<&str>, _>("name")?.is_some() && at.is_live(&row)?;
    Ok(found.then_some(row))
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
    let nanos: i64 = row.try_get("expires_ns")?;
    Ok(BootInstant::from_nanos(nanos.try_into().map_err(decode)?))
}

fn holder(row: &SqliteRow, at: Moment<'_>) -> Result<Holder> {
    let mut holder = Holder::new(row.try_get::<&str, _>("token")?.parse().ok());
    holder.identity = serde_json::from_str(row.try_get("identity")?).ok();
    holder.fence = Some(fence(row)?);
    holder.remaining = Some(at.remaining(row)?);
    holder.broken = row.try_get("broken")?;
    Ok(holder)
}

fn inspection(row: &SqliteRow, at: Moment<'_>) -> Result<Inspection> {
    let name = LockName::new(row.try_get::<&str, _>("name")?).map_err(decode)?;
    let mut inspection = Inspection::free(name);
    let holder = holder(row, at)?;
    let reserved: u64 = row.try_get::<i64, _>("fences")?.try_into().map_err(decode)?;
    inspection.fence =
        holder.fence.map(|first| Fence::new(first.get().saturating_add(reserved.max(1) - 1)));
    inspection.holders.push(holder);
    Ok(inspection)
}

fn json(value: &(impl serde::Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value).map_err(|e| sqlx::Error::Encode(e.into()))
}

fn decode(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// SQLite's integers have a sign.
fn stored(instant: BootInstant) -> i64 {
    i64::try_from(instant.as_nanos()).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
