use std::time::Duration;

use lockwright_core::{BootInstant, LockName, Mode};
use sqlx::sqlite::SqliteRow;
use sqlx::{Result, Row};

use super::statements::{Acquire, Acquired, Tables, decode, json, nanos, query, stored};
use crate::kind;

/// How long one poll of a waiting writer blocks new readers: several polling intervals.
const WAITS: Duration = Duration::from_secs(3);

struct Look {
    taken: u64,
    first_end: Option<BootInstant>,
    last_end: Option<BootInstant>,
    writer_until: Option<BootInstant>,
}

impl Tables<'_> {
    /// Acquires a name that, by its `row`, is free or has readers or permit holders.
    pub(super) async fn acquire_shared(
        &mut self,
        asked: &Acquire,
        row: &SqliteRow,
        is_live: bool,
    ) -> Result<Acquired> {
        let claim = &asked.claim;
        if is_live && let Some(own) = self.own(&claim.name, &claim.token.to_string()).await? {
            return self.again(claim, &own).await;
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
            let first = self.first_holder(&claim.name).await?;
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
        let added = self.add(asked, fence, until).await?;
        if is_live {
            self.keep(&[claim.name.as_str()]).await?;
        }
        Acquired::granted(&added)
    }

    /// Records that a writer waits for readers. Needs no transaction: a change of the name's fence
    /// makes the record void.
    pub(super) async fn wait(&mut self, asked: &Acquire, fence: i64) -> Result<()> {
        self.add(asked, fence, self.now + WAITS).await.map(drop)
    }

    pub(super) async fn swap_shared(
        &mut self,
        from: &str,
        asked: &Acquire,
    ) -> Result<Option<SqliteRow>> {
        let claim = &asked.claim;
        let Some(old) = self.own(&claim.name, from).await? else { return Ok(None) };
        let is_broken = old.try_get::<Option<&str>, _>("broken")?.is_some();
        if is_broken || self.holder(&old)?.mode != claim.mode {
            return Ok(None);
        }
        let fence: i64 = match claim.mode {
            Mode::Shared => old.try_get("fence")?,
            _ => self.number(&claim.name).await?,
        };
        let swap = query!("shared_swap";
            claim.name.as_str(), from, claim.token.to_string(), &asked.identity, fence,
            nanos(claim.ttl), stored(self.now + claim.ttl)
        );
        let swapped = self.row(swap).await?;
        self.keep(&[claim.name.as_str()]).await?;
        Ok(Some(swapped))
    }

    /// Frees the name, or lets it expire with its last holder. Returns whether a waiter may acquire
    /// it.
    pub(super) async fn leave(&mut self, name: &LockName, mode: Mode) -> Result<bool> {
        let look = self.look(name).await?;
        let ends = match (look.last_end, look.writer_until) {
            (Some(end), _) => end,
            // The row stays: the waiting writer's record depends on its fence.
            (None, Some(_)) => self.now,
            (None, None) => {
                self.execute(query!("shared_close"; name.as_str())).await?;
                return Ok(true);
            }
        };
        self.execute(query!("shared_shorten"; name.as_str(), stored(ends))).await?;
        Ok(look.last_end.is_none() || mode != Mode::Shared)
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

    pub(super) async fn own(&mut self, name: &LockName, token: &str) -> Result<Option<SqliteRow>> {
        let mut rows = self.rows(query!("shared_own"; name.as_str(), token)).await?;
        let Some(row) = rows.pop() else { return Ok(None) };
        let is_hold = self.is_live(&row)? && row.try_get::<&str, _>("mode")? != "exclusive";
        Ok(is_hold.then_some(row))
    }

    async fn number(&mut self, name: &LockName) -> Result<i64> {
        self.row(query!("shared_number"; name.as_str())).await?.try_get("fence")
    }

    async fn add(&mut self, asked: &Acquire, fence: i64, until: BootInstant) -> Result<SqliteRow> {
        let claim = &asked.claim;
        let (count, of) = kind::permits(claim.mode);
        let add = query!("shared_add";
            claim.name.as_str(), claim.token.to_string(), &asked.identity, kind::word(claim.mode),
            count, of, fence, nanos(claim.ttl), stored(until), self.boot
        );
        // Unlike `fetch_one`, `rows` reports an error of the commit.
        self.rows(add).await?.pop().ok_or(sqlx::Error::RowNotFound)
    }

    pub(super) async fn keep(&mut self, names: &[&str]) -> Result<()> {
        let keep = query!("shared_keep"; json(names)?, stored(self.now), self.boot);
        self.execute(keep).await.map(drop)
    }
}
