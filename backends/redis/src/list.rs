//! Listing of held names. An index would cost another write per grant, so each page scans all keys
//! with `SCAN`.
//!
//! `SCAN` returns every key that exists throughout the scan. In a Cluster, it misses a key that
//! moves from an unscanned master to a scanned one. So if a slot moved or is moving, all masters
//! are scanned once more. A name held throughout the listing is listed, unless its slot moves
//! twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwright_core::{Cursor, LockName, Page, Result};
use redis::Value;

use crate::answer::{Found, read};
use crate::connection::{Link, command};
use crate::keys::{FENCE_PATTERN, lock_of_fence};
use crate::servers::Servers;

/// Names per page: many, because each page scans all keys.
const PAGE: usize = 5_000;
/// Keys per `SCAN`: limited, because it blocks the server.
const SCANNED_AT_ONCE: &str = "1000";
const WALKS: usize = 2;
const INSPECTED_AT_ONCE: usize = 250;

pub(crate) async fn page(servers: &Servers, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let (names, is_last) = names(servers, prefix, from.map(|Cursor(last)| last), PAGE).await?;
    let next =
        if is_last { None } else { names.last().map(|name| Cursor(name.as_str().to_owned())) };
    let mut page = Page { names: Vec::with_capacity(names.len()), next };
    for some in names.chunks(INSPECTED_AT_ONCE) {
        for found in servers.inspect_all(some).await? {
            if let Found::Lock(inspection) = found
                && inspection.holders.iter().any(|holder| holder.token.is_some())
            {
                page.names.push(inspection);
            }
        }
    }
    Ok(page)
}

async fn names(
    servers: &Servers,
    prefix: &str,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<LockName>, bool)> {
    let wanted = Wanted { key_prefix: &servers.config().key_prefix, prefix, after, limit };
    let mut found = Names { names: BTreeSet::new(), is_last: true };
    match servers {
        Servers::One(link) => walk(link, &wanted, &mut found).await?,
        Servers::Cluster(cluster) => {
            let mut before = cluster.placement().await?;
            for _ in 0..WALKS {
                for (_, master) in cluster.masters() {
                    walk(&master, &wanted, &mut found).await?;
                }
                let after = cluster.placement().await?;
                if after.is_at_rest() && after == before {
                    break;
                }
                before = after;
            }
        }
    }
    Ok((found.names.into_iter().collect(), found.is_last))
}

struct Wanted<'w> {
    key_prefix: &'w str,
    prefix: &'w str,
    after: Option<String>,
    limit: usize,
}

impl Wanted<'_> {
    fn name(&self, lock: &str) -> Option<LockName> {
        let name = lock.strip_prefix(self.key_prefix)?;
        let is_after = self.after.as_deref().is_none_or(|after| name > after);
        if is_after && name.starts_with(self.prefix) { LockName::new(name).ok() } else { None }
    }
}

struct Names {
    names: BTreeSet<LockName>,
    is_last: bool,
}

async fn walk(link: &Arc<Link>, wanted: &Wanted<'_>, found: &mut Names) -> Result<()> {
    let mut position = "0".to_owned();
    loop {
        let words = ["SCAN", &position, "MATCH", FENCE_PATTERN, "COUNT", SCANNED_AT_ONCE];
        let (next, keys) = scanned(link.read(&command(&words)).await?)?;
        let locks = keys.iter().filter_map(|key| lock_of_fence(key));
        let locks = locks.filter_map(|lock| Some((lock, wanted.name(lock)?))).collect();
        for name in existing(link, locks).await? {
            if found.names.insert(name) && found.names.len() > wanted.limit {
                found.names.pop_last();
                found.is_last = false;
            }
        }
        if next == "0" {
            return Ok(());
        }
        position = next;
    }
}

/// Returns the names whose lock exists, because a fence counter outlives its lock.
async fn existing(link: &Arc<Link>, mut locks: Vec<(&str, LockName)>) -> Result<Vec<LockName>> {
    let mut exist = redis::pipe();
    for (lock, _) in &locks {
        exist.cmd("EXISTS").arg(*lock);
    }
    let mut answers = link.read_each(&exist, locks.len()).await?.into_iter();
    // Keep the name after an error, because its key's slot is moving.
    locks.retain(|_| !matches!(answers.next(), Some(Value::Int(0))));
    Ok(locks.into_iter().map(|(_, name)| name).collect())
}

/// Skips keys that aren't UTF-8, which can't be locks.
fn scanned(answer: Value) -> Result<(String, Vec<String>)> {
    let (next, keys): (String, Vec<Vec<u8>>) = read(answer)?;
    Ok((next, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}
