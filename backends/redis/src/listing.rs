//! Listing held names.
//!
//! The server has no index of them: an index in one place would be one more write per grant, and
//! would not share the slots of the locks in a Cluster. So a listing walks the whole keyspace with
//! `SCAN`, which answers every key that was there all the time at least once, and some twice.
//!
//! Each page is a whole walk, in the order of the names: the smallest that come after the last
//! name of the page before. So a name can't be in two pages, nothing is remembered between them,
//! and a page needs no more memory than its own names.

use std::collections::BTreeSet;

use lockwright_core::{Cursor, LockName, Page, Result};
use redis::{FromRedisValue, Value};

use crate::Redis;
use crate::answer::Found;
use crate::errors::{Effect, odd_answer};
use crate::keys::{HOLD_PATTERN, lock_of_hold};

/// Names in a page: many, as each page is a walk.
const PAGE: usize = 5_000;
/// Keys that one `SCAN` looks at: the server does nothing else meanwhile.
const SCANNED_AT_ONCE: usize = 1_000;
/// Names that are described in one round trip.
const INSPECTED_AT_ONCE: usize = 250;

pub(crate) async fn page(redis: &Redis, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let (names, is_last) = names(redis, prefix, from.map(|Cursor(last)| last), PAGE).await?;
    let next =
        if is_last { None } else { names.last().map(|name| Cursor(name.as_str().to_owned())) };
    let mut page = Page { names: Vec::with_capacity(names.len()), next };
    for some in names.chunks(INSPECTED_AT_ONCE) {
        for found in redis.inspect_all(some).await? {
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
    redis: &Redis,
    prefix: &str,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<LockName>, bool)> {
    let key_prefix = &redis.link.config().key_prefix;
    let mut names = BTreeSet::new();
    let mut is_last = true;
    let mut position = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&position).arg("MATCH").arg(HOLD_PATTERN);
        scan.arg("COUNT").arg(SCANNED_AT_ONCE);
        let answer = redis.link.read(&scan).await?;
        let (next, keys) = scanned(answer)?;
        for key in keys {
            let name = lock_of_hold(&key)
                .and_then(|lock| lock.strip_prefix(key_prefix.as_str()))
                .filter(|name| name.starts_with(prefix))
                .and_then(|name| LockName::new(name).ok());
            let Some(name) = name else { continue };
            let is_after = after.as_deref().is_none_or(|after| name.as_str() > after);
            if is_after && names.insert(name) && names.len() > limit {
                names.pop_last();
                is_last = false;
            }
        }
        if next == "0" {
            return Ok((names.into_iter().collect(), is_last));
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
