//! Listing of held names. Each page scans all keys with `SCAN`, because an index would cost another
//! write per grant.
//!
//! `SCAN` returns every key that exists throughout the scan. In a Cluster, it misses a key that
//! moves from an unscanned master to a scanned one. So if a slot moved or is moving, all masters
//! are scanned once more. A name held throughout the listing is listed, unless its slot moves
//! twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwright_core::{Cursor, Inspection, LockName, Page, Result};
use redis::Value;

use crate::answer::read;
use crate::connection::{Link, command};
use crate::keys::{FENCE_PATTERN, lock_of_fence};
use crate::servers::Servers;

/// Many, because each page scans all keys.
const PAGE: usize = 5_000;
/// Not more, because no other command runs during a `SCAN`.
const SCANNED_AT_ONCE: &str = "1000";
const WALKS: usize = 2;
const INSPECTED_AT_ONCE: usize = 500;

pub(crate) async fn page(servers: &Servers, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let mut search = Search {
        key_prefix: &servers.config().key_prefix,
        prefix,
        after: from.map(|Cursor(last)| last),
        names: BTreeSet::new(),
        is_last: true,
        keys_per_command: match servers {
            Servers::One(_) => usize::MAX,
            // A command's keys must share a slot.
            Servers::Cluster(_) => 1,
        },
    };
    match servers {
        Servers::One(link) => search.scan(link).await?,
        Servers::Cluster(cluster) => {
            let mut before = cluster.placement().await?;
            for _ in 0..WALKS {
                for (_, master) in cluster.masters() {
                    search.scan(&master).await?;
                }
                let after = cluster.placement().await?;
                if after.is_at_rest() && after == before {
                    break;
                }
                before = after;
            }
        }
    }
    let names: Vec<LockName> = search.names.into_iter().collect();
    let next = names.last().filter(|_| !search.is_last);
    let next = next.map(|name| Cursor(name.as_str().to_owned()));
    let mut page = Page { names: Vec::with_capacity(names.len()), next };
    for some in names.chunks(INSPECTED_AT_ONCE) {
        let found = servers.inspect_all(some).await?.into_iter().flatten();
        let is_held = |it: &Inspection| it.holders.iter().any(|holder| holder.token.is_some());
        page.names.extend(found.filter(is_held));
    }
    Ok(page)
}

struct Search<'s> {
    key_prefix: &'s str,
    prefix: &'s str,
    after: Option<String>,
    names: BTreeSet<LockName>,
    is_last: bool,
    keys_per_command: usize,
}

impl Search<'_> {
    fn wanted(&self, lock: &str) -> Option<LockName> {
        let name = lock.strip_prefix(self.key_prefix)?;
        let is_after = self.after.as_deref().is_none_or(|after| name > after);
        if is_after && name.starts_with(self.prefix) { LockName::new(name).ok() } else { None }
    }

    async fn scan(&mut self, link: &Arc<Link>) -> Result<()> {
        let mut position = "0".to_owned();
        loop {
            let words = ["SCAN", &position, "MATCH", FENCE_PATTERN, "COUNT", SCANNED_AT_ONCE];
            let (next, keys) = scanned(link.read(&command(&words)).await?)?;
            let locks = keys.iter().filter_map(|key| lock_of_fence(key));
            let locks = locks.filter_map(|lock| Some((lock, self.wanted(lock)?)));
            let locks: Vec<_> = locks.collect();
            for name in existing(link, &locks, self.keys_per_command).await? {
                if self.names.insert(name) && self.names.len() > PAGE {
                    self.names.pop_last();
                    self.is_last = false;
                }
            }
            if next == "0" {
                return Ok(());
            }
            position = next;
        }
    }
}

/// Returns the names with a lock. Others have only a fence counter, or a key of another type.
async fn existing(
    link: &Arc<Link>,
    locks: &[(&str, LockName)],
    keys_per_command: usize,
) -> Result<Vec<LockName>> {
    let mut read = redis::pipe();
    for some in locks.chunks(keys_per_command) {
        read.cmd("MGET").arg(some.iter().map(|(lock, _)| *lock).collect::<Vec<_>>());
    }
    let answers = link.read_each(&read, locks.len().div_ceil(keys_per_command)).await?;
    let mut names = Vec::new();
    for (some, answer) in locks.chunks(keys_per_command).zip(answers) {
        // An error means that the key's slot is moving, so the name is kept.
        let is_missing =
            |at| matches!(&answer, Value::Array(values) if values.get(at) == Some(&Value::Nil));
        let kept = some.iter().enumerate().filter(|(at, _)| !is_missing(*at));
        names.extend(kept.map(|(_, (_, name))| name.clone()));
    }
    Ok(names)
}

/// Skips keys that aren't UTF-8, which can't be locks.
fn scanned(answer: Value) -> Result<(String, Vec<String>)> {
    let (next, keys): (String, Vec<Vec<u8>>) = read(answer)?;
    Ok((next, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}
