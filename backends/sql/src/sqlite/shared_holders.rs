//! Readers and holders of permits.
//!
//! Most functions need a transaction, and a [`Moment`] read within it.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Fence, Granted, LockName, Mode, ReleaseOutcome, Token,
};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Result, Row};

use super::statements::{
    Acquire, Acquired, Asked, Hold, Moment, TOMBSTONE, decode, expires, holder, json, nanos,
    put_tombstone, query, seen, stored,
};
use crate::kind;

/// How long a writer's poll blocks new readers: the time of several polls.
const WAITS: Duration = Duration::from_secs(3);

struct Look {
    taken: u64,
    first_end: Option<BootInstant>,
    last_end: Option<BootInstant>,
    writer_until: Option<BootInstant>,
}

pub(super) async fn acquire(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    at: Moment<'_>,
) -> Result<Acquired> {
    let row = seen(connection, asked, at).await?;
    if row.try_get("is_ended")? {
        return Ok(Acquired::Ended);
    }
    let is_live = row.try_get::<Option<&str>, _>("name")?.is_some() && at.is_live(&row)?;
    if is_live {
        let present = present(&row)?;
        if !present.is_of_the_kind_of(asked.mode) {
            return Ok(Acquired::OtherKind(present));
        }
        if present == Mode::Exclusive {
            return Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy {
                retry_after: Some(at.remaining(&row)?),
                holder: Some(Box::new(holder(&row, at)?)),
                queued: false,
            })));
        }
        if let Some(own) = own(connection, &asked.name, asked.token, at).await? {
            let granted = again(connection, asked, &own, at).await?;
            return Ok(Acquired::Outcome(AcquireOutcome::Granted(granted)));
        }
    }
    let look = look(connection, &asked.name, at).await?;
    let (fits, free_at) = match asked.mode {
        Mode::Permits { count, of } => {
            (look.taken + u64::from(count) <= u64::from(of), look.first_end)
        }
        _ => (look.writer_until.is_none(), look.last_end.or(look.writer_until)),
    };
    if !fits {
        return Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy {
            retry_after: free_at.map(|end| end.saturating_since(at.now)),
            holder: first(connection, &asked.name, at).await?,
            queued: false,
        })));
    }
    let until = at.now + asked.ttl;
    let fence = if !is_live {
        let kind = kind::kind(asked.mode).unwrap_or_default();
        let opened = query!("acquire", "shared_open")
            .bind(asked.name.as_str())
            .bind(kind)
            .bind(kind::word(asked.mode))
            .bind(nanos(asked.ttl))
            .bind(stored(until))
            .bind(at.boot)
            .fetch_one(&mut *connection)
            .await?;
        opened.try_get("fence")?
    } else if asked.mode == Mode::Shared {
        row.try_get("fence")?
    } else {
        number(connection, &asked.name).await?
    };
    add(connection, asked, fence, until, at).await?;
    if is_live {
        keep(connection, &[&asked.name], at).await?;
    }
    Ok(Acquired::Outcome(AcquireOutcome::Granted(granted(fence)?)))
}

/// Records that a writer waits for readers. Needs no transaction, because the record is void once
/// the name's fence has changed.
pub(super) async fn wait(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    row: &SqliteRow,
    at: Moment<'_>,
) -> Result<()> {
    add(connection, asked, row.try_get("fence")?, at.now + WAITS, at).await
}

pub(super) async fn first(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Option<Box<lockwright_core::Holder>>> {
    match holders(connection, name, at).await?.first() {
        Some(row) => Ok(Some(Box::new(holder(row, at)?))),
        None => Ok(None),
    }
}

pub(super) async fn holders(
    connection: &mut SqliteConnection,
    name: &LockName,
    at: Moment<'_>,
) -> Result<Vec<SqliteRow>> {
    query!("inspect", "shared_holders")
        .bind(name.as_str())
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_all(connection)
        .await
}

pub(super) fn present(row: &SqliteRow) -> Result<Mode> {
    let token: &str = row.try_get("token")?;
    kind::present(token).ok_or_else(|| sqlx::Error::Decode(format!("{token:?} is no token").into()))
}

pub(super) async fn swap(
    connection: &mut SqliteConnection,
    from: Token,
    asked: &Acquire,
    at: Moment<'_>,
) -> Result<Acquired> {
    let row = seen(connection, asked, at).await?;
    if row.try_get("is_ended")? {
        return Ok(Acquired::Ended);
    }
    if let Some(own) = own(connection, &asked.name, asked.token, at).await? {
        let granted = again(connection, asked, &own, at).await?;
        return Ok(Acquired::Outcome(AcquireOutcome::Granted(granted)));
    }
    let not_held = Ok(Acquired::Outcome(AcquireOutcome::Busy(Busy::default())));
    let Some(old) = own(connection, &asked.name, from, at).await? else { return not_held };
    let is_broken = old.try_get::<Option<&str>, _>("broken")?.is_some();
    if is_broken || holder(&old, at)?.mode != asked.mode {
        return not_held;
    }
    let fence = match asked.mode {
        Mode::Shared => old.try_get("fence")?,
        _ => number(connection, &asked.name).await?,
    };
    let from = from.to_string();
    query!("swap", "shared_swap")
        .bind(asked.name.as_str())
        .bind(&from)
        .bind(asked.token.to_string())
        .bind(&asked.identity)
        .bind(fence)
        .bind(nanos(asked.ttl))
        .bind(stored(at.now + asked.ttl))
        .execute(&mut *connection)
        .await?;
    keep(connection, &[&asked.name], at).await?;
    put_tombstone(connection, &from, at.now + asked.ttl.max(TOMBSTONE), at.boot, None).await?;
    Ok(Acquired::Outcome(AcquireOutcome::Granted(granted(fence)?)))
}

/// Adds the tokens of renewed holds to `renewed`.
pub(super) async fn renew(
    connection: &mut SqliteConnection,
    asked: &[Asked<'_>],
    at: Moment<'_>,
    renewed: &mut HashSet<String>,
) -> Result<()> {
    let rows = query!("renew", "shared_renew")
        .bind(json(asked)?)
        .bind(stored(at.now))
        .bind(at.boot)
        .fetch_all(&mut *connection)
        .await?;
    for row in &rows {
        renewed.insert(row.try_get("token")?);
    }
    let names: Vec<&str> = asked.iter().map(|(name, _, _)| *name).collect();
    keep(connection, &names, at).await
}

/// Returns whether the hold existed, and whether its end may admit a waiter.
pub(super) async fn release(
    connection: &mut SqliteConnection,
    hold: &Hold,
    at: Moment<'_>,
) -> Result<(ReleaseOutcome, bool)> {
    let name = hold.name.as_str();
    let gone = remove(connection, hold).await?;
    let Some(gone) = gone else { return Ok((ReleaseOutcome::NotHeld, false)) };
    if !at.is_live(&gone)? {
        return Ok((ReleaseOutcome::NotHeld, false));
    }
    let look = look(connection, &hold.name, at).await?;
    let ends = match (look.last_end, look.writer_until) {
        (Some(end), _) => end,
        // The row stays, because the waiting writer's record depends on its fence.
        (None, Some(_)) => at.now,
        (None, None) => {
            query!("release", "shared_close").bind(name).execute(connection).await?;
            return Ok((ReleaseOutcome::Released, true));
        }
    };
    query!("release", "shared_shorten").bind(name).bind(stored(ends)).execute(connection).await?;
    let makes_room = look.last_end.is_none() || hold.mode != Mode::Shared;
    Ok((ReleaseOutcome::Released, makes_room))
}

/// Removes a waiting writer's record. Needs no transaction.
pub(super) async fn withdraw(
    connection: &mut SqliteConnection,
    hold: &Hold,
    at: Moment<'_>,
) -> Result<bool> {
    remove(connection, hold).await?.map_or(Ok(false), |gone| at.is_live(&gone))
}

async fn remove(connection: &mut SqliteConnection, hold: &Hold) -> Result<Option<SqliteRow>> {
    let gone = query!("release", "shared_release")
        .bind(hold.name.as_str())
        .bind(hold.token.to_string())
        .fetch_all(connection)
        .await?;
    Ok(gone.into_iter().next())
}

async fn look(connection: &mut SqliteConnection, name: &LockName, at: Moment<'_>) -> Result<Look> {
    let row = query!("acquire", "shared_look")
        .bind(name.as_str())
        .bind(at.boot)
        .bind(stored(at.now))
        .fetch_one(connection)
        .await?;
    let end = |column| -> Result<Option<BootInstant>> {
        let nanos: Option<i64> = row.try_get(column)?;
        nanos.map(|end| end.try_into().map(BootInstant::from_nanos).map_err(decode)).transpose()
    };
    Ok(Look {
        taken: row.try_get::<i64, _>("taken")?.try_into().map_err(decode)?,
        first_end: end("first_end")?,
        last_end: end("last_end")?,
        writer_until: end("writer_until")?,
    })
}

async fn own(
    connection: &mut SqliteConnection,
    name: &LockName,
    token: Token,
    at: Moment<'_>,
) -> Result<Option<SqliteRow>> {
    let rows = query!("renew", "shared_own")
        .bind(name.as_str())
        .bind(token.to_string())
        .fetch_all(connection)
        .await?;
    match rows.into_iter().next() {
        Some(row) if at.is_live(&row)? && row.try_get::<&str, _>("mode")? != "exclusive" => {
            Ok(Some(row))
        }
        _ => Ok(None),
    }
}

/// Renews the hold, unless it was broken.
async fn again(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    own: &SqliteRow,
    at: Moment<'_>,
) -> Result<Granted> {
    let token = asked.token.to_string();
    let mut renewed = HashSet::new();
    let hold = [(asked.name.as_str(), token, nanos(asked.ttl))];
    renew(connection, &hold, at, &mut renewed).await?;
    let mut granted = granted(own.try_get("fence")?)?;
    if renewed.is_empty() {
        granted.valid = Some(expires(own)?.saturating_since(at.now));
    }
    Ok(granted)
}

async fn number(connection: &mut SqliteConnection, name: &LockName) -> Result<i64> {
    query!("acquire", "shared_number")
        .bind(name.as_str())
        .fetch_one(connection)
        .await?
        .try_get("fence")
}

async fn add(
    connection: &mut SqliteConnection,
    asked: &Acquire,
    fence: i64,
    until: BootInstant,
    at: Moment<'_>,
) -> Result<()> {
    let (count, of) = kind::permits(asked.mode);
    query!("acquire", "shared_add")
        .bind(asked.name.as_str())
        .bind(asked.token.to_string())
        .bind(&asked.identity)
        .bind(kind::word(asked.mode))
        .bind(count)
        .bind(of)
        .bind(fence)
        .bind(nanos(asked.ttl))
        .bind(stored(until))
        .bind(at.boot)
        .execute(connection)
        .await
        .map(drop)
}

async fn keep(
    connection: &mut SqliteConnection,
    names: &[impl AsRef<str>],
    at: Moment<'_>,
) -> Result<()> {
    let names: Vec<[&str; 1]> = names.iter().map(|name| [name.as_ref()]).collect();
    query!("renew", "shared_keep")
        .bind(json(&names)?)
        .bind(stored(at.now))
        .bind(at.boot)
        .execute(connection)
        .await
        .map(drop)
}

fn granted(fence: i64) -> Result<Granted> {
    Ok(Granted::new(Fence::new(fence.try_into().map_err(decode)?)))
}
