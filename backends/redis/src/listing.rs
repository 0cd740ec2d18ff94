//! Listing held names.
//!
//! The server has no index of them: an index in one place would be one more write per grant, and
//! would not share the slots of the locks in a Cluster. So a listing walks the whole keyspace with
//! `SCAN`, which answers every key that was there all the time at least once, and some twice.
//!
//! Each page is a whole walk, in the order of the names: the smallest that come after the last
//! name of the page before. So a name can't be in two pages, nothing is remembered between them,
//! and a page needs no more memory than its own names.
//!
//! In a Cluster each master is walked. A key that is moved from one that wasn't looked at yet to one
//! that was would be missed. So if a slot was on the move, or its master has another than before, all
//! are walked once more, and what either walk found counts: a name is in the listing that is
//! held all the time, unless its slot was moved twice meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockwright_core::{Cursor, LockName, Page, Result};
use redis::{FromRedisValue, Value};

use crate::answer::Found;
use crate::connection::Link;
use crate::errors::{Effect, odd_answer};
use crate::keys::{HOLD_PATTERN, lock_of_hold};
use crate::servers::Servers;

/// Names in a page: many, as each page is a walk.
const PAGE: usize = 5_000;
/// Keys that one `SCAN` looks at: the server does nothing else meanwhile.
const SCANNED_AT_ONCE: usize = 1_000;
/// How often the masters of a Cluster are walked at most.
const WALKS: usize = 2;
/// Names that are described in one round trip.
const INSPECTED_AT_ONCE: usize = 250;

pub(crate) async fn page(servers: &Servers, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let (names, is_last) = names(servers, prefix, from.map(|Cursor(last)| last), PAGE).await?;
    let next =
        if is_last { None } else { names.last().map(|name| Cursor(name.as_str().to_owned())) };
    let mut page = Page { names: Vec::with_capacity(names.len()), next };
    for some in names.chunks(INSPECTED_AT_ONCE) {
        for found in servers.inspect_all(some).await? {
            // What was released meanwhile isn't held, and what isn't ours isn't a lock to us.
            if let Found::Lock(inspection) = found
                && inspection.holders.iter().any(|holder| holder.token.is_some())
            {
                page.names.push(inspection);
            }
        }
    }
    Ok(page)
}

/// The `limit` smallest names after `after`, and whether there are no more.
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

/// What a page is to have.
struct Wanted<'w> {
    key_prefix: &'w str,
    prefix: &'w str,
    after: Option<String>,
    limit: usize,
}

/// What it has so far.
struct Names {
    names: BTreeSet<LockName>,
    is_last: bool,
}

/// Looks at every key of one server.
async fn walk(link: &Arc<Link>, wanted: &Wanted<'_>, found: &mut Names) -> Result<()> {
    let mut position = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&position).arg("MATCH").arg(HOLD_PATTERN);
        scan.arg("COUNT").arg(SCANNED_AT_ONCE);
        let (next, keys) = scanned(link.read(&scan).await?)?;
        for key in keys {
            let name = lock_of_hold(&key)
                .and_then(|lock| lock.strip_prefix(wanted.key_prefix))
                .filter(|name| name.starts_with(wanted.prefix))
                .and_then(|name| LockName::new(name).ok());
            let Some(name) = name else { continue };
            let is_after = wanted.after.as_deref().is_none_or(|after| name.as_str() > after);
            if is_after && found.names.insert(name) && found.names.len() > wanted.limit {
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

/// A key that isn't text is nobody's lock, but must not end the listing.
fn scanned(answer: Value) -> Result<(String, Vec<String>)> {
    let (next, keys): (String, Vec<Vec<u8>>) = FromRedisValue::from_redis_value(answer)
        .map_err(|cause| odd_answer(Effect::Reads, cause))?;
    Ok((next, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}
