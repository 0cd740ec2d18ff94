//! Readers and holders of permits.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    BootInstant, Claim, Fence, Granted, Holder, LockName, Mode, ReleaseOutcome, Token,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Result, Row};

use super::statements::{
    Acquire, Acquired, Asked, Tables, decode, expires, json, nanos, query, stored, to_renew,
};
use crate::kind;

/// How long a waiting writer's poll blocks new readers: the time of several polls.
const WAITS: Duration = Duration::from_secs(3);

struct Look {
    taken: u64,
    first_end: Option<BootInstant>,
    last_end: Option<BootInstant>,
    writer_until: Option<BootInstant>,
}

impl Tables<'_> {
    pub(super) async fn acquire_shared(&mut self, asked: &Acquire) -> Result<Acquired> {
        let claim = &asked.claim;
        let token = claim.token.to_string();
        let (row, is_live, is_ended) = self.seen(&claim.name, Some(&token)).await?;
        if is_ended {
            return Ok(Acquired::Ended);
        }
        if is_live {
            let present = present(&row)?;
            if !present.is_of_the_kind_of(claim.mode) {
                return Ok(Acquired::OtherKind(present));
            }
            if present == Mode::Exclusive {
                let holder = self.holder(&row)?;
                return Ok(Acquired::busy(Some(self.remaining(&row)?), Some(holder), false));
            }
            if let Some(own) = self.own(&claim.name, claim.token).await? {
                return self.again_shared(claim, &own).await;
            }
        }
        let look = self.look(&claim.name).await?;
        let (fits, free_at) = match claim.mode {
            Mode::Permits { count, of } => {
                (look.taken + u64::from(count) <= u64::from(of), look.first_end)
            }
            _ => (look.writer_until.is_none(), look.last_end.or(look.writer_until)),
        };
        if !fits {
            let retry_after = free_at.map(|end| end.saturating_since(self.now));
            let first = self.first_shared(&claim.name).await?;
            return Ok(Acquired::busy(retry_after, first, false));
        }
        let until = self.now + claim.ttl;
        let fence = if !is_live {
            let open = query!("shared_open";
                claim.name.as_str(), kind::kind(claim.mode).unwrap_or_default(),
                kind::word(claim.mode), nanos(claim.ttl), stored(until), self.boot
            );
            self.row(open).await?.try_get("fence")?
        } else if claim.mode == Mode::Shared {
            row.try_get("fence")?
        } else {
            self.number(&claim.name).await?
        };
        self.add(asked, fence, until).await?;
        if is_live {
            self.keep(&[claim.name.as_str()]).await?;
        }
        Ok(Acquired::granted(granted(fence)?))
    }

    /// Records that a writer waits for readers. Needs no transaction, because the record is void
    /// once the name's `fence` has changed.
    pub(super) async fn wait(&mut self, asked: &Acquire, fence: i64) -> Result<()> {
        self.add(asked, fence, self.now + WAITS).await
    }

    pub(super) async fn first_shared(&mut self, name: &LockName) -> Result<Option<Holder>> {
        self.shared_holders(name).await?.first().map(|row| self.holder(row)).transpose()
    }

    pub(super) async fn shared_holders(&mut self, name: &LockName) -> Result<Vec<SqliteRow>> {
        self.rows(query!("shared_holders"; name.as_str(), self.boot, stored(self.now))).await
    }

    pub(super) async fn swap_shared(&mut self, from: Token, asked: &Acquire) -> Result<Acquired> {
        let claim = &asked.claim;
        let token = claim.token.to_string();
        let (_, _, is_ended) = self.seen(&claim.name, Some(&token)).await?;
        if is_ended {
            return Ok(Acquired::Ended);
        }
        if let Some(own) = self.own(&claim.name, claim.token).await? {
            return self.again_shared(claim, &own).await;
        }
        let not_held = Ok(Acquired::busy(None, None, false));
        let Some(old) = self.own(&claim.name, from).await? else { return not_held };
        let is_broken = old.try_get::<Option<&str>, _>("broken")?.is_some();
        if is_broken || self.holder(&old)?.mode != claim.mode {
            return not_held;
        }
        let fence = match claim.mode {
            Mode::Shared => old.try_get("fence")?,
            _ => self.number(&claim.name).await?,
        };
        let from = from.to_string();
        let swap = query!("shared_swap";
            claim.name.as_str(), &from, &token, &asked.identity, fence, nanos(claim.ttl),
            stored(self.now + claim.ttl)
        );
        self.execute(swap).await?;
        self.keep(&[claim.name.as_str()]).await?;
        self.put_tombstone(&from, claim.ttl, None).await?;
        Ok(Acquired::granted(granted(fence)?))
    }

    /// Renews holds, and adds their tokens to `renewed`.
    pub(super) async fn renew_shared(
        &mut self,
        asked: &[Asked<'_>],
        renewed: &mut HashSet<String>,
    ) -> Result<()> {
        let renew = query!("shared_renew"; json(asked)?, stored(self.now), self.boot);
        for row in self.rows(renew).await? {
            renewed.insert(row.try_get("token")?);
        }
        let names: Vec<&str> = asked.iter().map(|(name, _, _)| *name).collect();
        self.keep(&names).await
    }

    /// Releases a hold. Returns whether it existed, and whether a waiter may now acquire the name.
    pub(super) async fn release_shared(
        &mut self,
        name: &LockName,
        token: Token,
        mode: Mode,
    ) -> Result<(ReleaseOutcome, bool)> {
        let gone = self.remove_shared(name, token).await?;
        if !gone.map_or(Ok(false), |gone| self.is_live(&gone))? {
            return Ok((ReleaseOutcome::NotHeld, false));
        }
        let look = self.look(name).await?;
        let ends = match (look.last_end, look.writer_until) {
            (Some(end), _) => end,
            // The row stays, because the waiting writer's record depends on its fence.
            (None, Some(_)) => self.now,
            (None, None) => {
                self.execute(query!("shared_close"; name.as_str())).await?;
                return Ok((ReleaseOutcome::Released, true));
            }
        };
        self.execute(query!("shared_shorten"; name.as_str(), stored(ends))).await?;
        let makes_room = look.last_end.is_none() || mode != Mode::Shared;
        Ok((ReleaseOutcome::Released, makes_room))
    }

    /// Removes the row of a hold or of a waiting writer. Needs no transaction for a writer.
    pub(super) async fn remove_shared(
        &mut self,
        name: &LockName,
        token: Token,
    ) -> Result<Option<SqliteRow>> {
        let release = query!("shared_release"; name.as_str(), token.to_string());
        Ok(self.rows(release).await?.into_iter().next())
    }

    async fn look(&mut self, name: &LockName) -> Result<Look> {
        let look = query!("shared_look"; name.as_str(), self.boot, stored(self.now));
        let row = self.row(look).await?;
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

    async fn own(&mut self, name: &LockName, token: Token) -> Result<Option<SqliteRow>> {
        let rows = self.rows(query!("shared_own"; name.as_str(), token.to_string())).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        let is_hold = self.is_live(&row)? && row.try_get::<&str, _>("mode")? != "exclusive";
        Ok(is_hold.then_some(row))
    }

    /// Renews the hold, unless it was broken.
    async fn again_shared(&mut self, claim: &Claim, own: &SqliteRow) -> Result<Acquired> {
        let mut renewed = HashSet::new();
        self.renew_shared(&[to_renew(claim)], &mut renewed).await?;
        let mut granted = granted(own.try_get("fence")?)?;
        if renewed.is_empty() {
            granted.valid = Some(expires(own)?.saturating_since(self.now));
        }
        Ok(Acquired::granted(granted))
    }

    async fn number(&mut self, name: &LockName) -> Result<i64> {
        self.row(query!("shared_number"; name.as_str())).await?.try_get("fence")
    }

    async fn add(&mut self, asked: &Acquire, fence: i64, until: BootInstant) -> Result<()> {
        let claim = &asked.claim;
        let (count, of) = kind::permits(claim.mode);
        let add = query!("shared_add";
            claim.name.as_str(), claim.token.to_string(), &asked.identity, kind::word(claim.mode),
            count, of, fence, nanos(claim.ttl), stored(until), self.boot
        );
        self.execute(add).await.map(drop)
    }

    async fn keep(&mut self, names: &[&str]) -> Result<()> {
        let names: Vec<[&str; 1]> = names.iter().map(|name| [*name]).collect();
        let keep = query!("shared_keep"; json(&names)?, stored(self.now), self.boot);
        self.execute(keep).await.map(drop)
    }
}

pub(super) fn present(row: &SqliteRow) -> Result<Mode> {
    let token: &str = row.try_get("token")?;
    kind::present(token).ok_or_else(|| sqlx::Error::Decode(format!("{token:?} is no token").into()))
}

fn granted(fence: i64) -> Result<Granted> {
    Ok(Granted::new(Fence::new(fence.try_into().map_err(decode)?)))
}
