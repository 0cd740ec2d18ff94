use std::collections::HashMap;
use std::time::Duration;

use lockwright_core::backend_util::queue_admission;
use lockwright_core::{Cursor, ErrorKind, Inspection, LockName, Mode, Page, Result};

use crate::errors::error;
use crate::keys::{Keys, after, behind};
use crate::queue::Queue;
use crate::shared::Shared;
use crate::value::Entry;

pub(crate) async fn inspect(shared: &Shared, name: &LockName) -> Result<Inspection> {
    let Queue { holders, places } = shared.queue(name, None).await?;
    inspection(shared, name.clone(), holders, places.len(), &mut HashMap::new()).await
}

/// The position where a listing continues. `start` is the first key of the next page. With raw
/// names, it may be in the ranges of several names (`a` and `a/b`). `listed` has the lengths of its
/// prefixes that earlier pages have listed.
#[derive(Debug, PartialEq, Eq)]
struct Position {
    start: Vec<u8>,
    listed: Vec<usize>,
}

impl Position {
    fn cursor(&self) -> Cursor {
        let listed = self.listed.iter().map(|end| format!("{end},"));
        let start = self.start.iter().copied().map(char::from);
        Cursor(listed.chain([":".to_owned()]).collect::<String>() + &start.collect::<String>())
    }

    fn read(Cursor(text): &Cursor) -> Option<Self> {
        let (listed, start) = text.split_once(':')?;
        let listed = listed.split_terminator(',').map(|end| end.parse().ok());
        let start = start.chars().map(|byte| u8::try_from(byte).ok());
        Some(Self { start: start.collect::<Option<_>>()?, listed: listed.collect::<Option<_>>()? })
    }

    fn is_listed(&self, queue: &[u8]) -> bool {
        self.listed.iter().any(|end| self.start.get(..*end) == Some(queue))
    }
}

/// Returns a page of names. Each name's whole queue is read, even beyond the page.
pub(crate) async fn page(shared: &Shared, prefix: &str, from: Option<Cursor>) -> Result<Page> {
    let keys = shared.keys();
    let beginning = keys.beginning(prefix);
    let end = after(&beginning);
    let position = match from {
        // etcd rejects an empty key, so start at the smallest key.
        None if beginning.is_empty() => Position { start: vec![0], listed: Vec::new() },
        None => Position { start: beginning, listed: Vec::new() },
        Some(from) => Position::read(&from).ok_or_else(|| {
            let message =
                "the cursor isn't from an etcd listing; use the cursor of the previous page";
            error(ErrorKind::InvalidInput, message)
        })?,
    };
    let found = shared.page(position.start.clone(), end).await?;
    let is_last = found.next_start().is_none();
    let last = found.keys.last().map(|last| last.key().to_vec()).unwrap_or_default();
    let mut queues: Vec<(LockName, Vec<Entry>)> = Vec::new();
    for entry in found.keys.iter().map(Entry::of) {
        let Some(name) = keys.name(&entry.key) else { continue };
        if !name.as_str().starts_with(prefix) || position.is_listed(&keys.queue(&name)) {
            continue;
        }
        match queues.iter_mut().rfind(|(other, _)| *other == name) {
            Some((_, queue)) => queue.push(entry),
            None => queues.push((name, vec![entry])),
        }
    }
    let next =
        (!is_last).then(|| next(keys, &position, &last, queues.iter().map(|(name, _)| name)));
    let mut leases = HashMap::new();
    let mut names = Vec::with_capacity(queues.len());
    for (name, mut queue) in queues {
        let all = keys.queue(&name);
        let goes_beyond = position.start.starts_with(&all) || (!is_last && last.starts_with(&all));
        let (holders, standing) = if goes_beyond {
            let Queue { holders, places } = shared.queue(&name, None).await?;
            (holders, places.len())
        } else {
            queue.sort_by_key(|entry| entry.created);
            let standing = queue.len();
            let modes: Vec<Mode> = queue.iter().map(Entry::mode).collect();
            queue.truncate(queue_admission::holders(&modes));
            (queue, standing)
        };
        if standing > 0 {
            names.push(inspection(shared, name, holders, standing, &mut leases).await?);
        }
    }
    Ok(Page { names, next: next.map(|next| next.cursor()) })
}

fn next<'n>(
    keys: &Keys,
    before: &Position,
    last: &[u8],
    listed: impl Iterator<Item = &'n LockName>,
) -> Position {
    let start = behind(last);
    let mut ends = before.listed.clone();
    ends.retain(|end| before.start.get(..*end) == start.get(..*end));
    for queue in listed.map(|name| keys.queue(name)).filter(|queue| start.starts_with(queue)) {
        if !keys.raw {
            return Position { start: after(&queue), listed: Vec::new() };
        }
        ends.push(queue.len());
    }
    Position { start, listed: ends }
}

async fn inspection(
    shared: &Shared,
    name: LockName,
    holders: Vec<Entry>,
    standing: usize,
    leases: &mut HashMap<i64, Option<Duration>>,
) -> Result<Inspection> {
    let mut inspection = Inspection::free(name);
    let waiters = standing.saturating_sub(holders.len());
    let shared_fence = holders.iter().map(Entry::fence).min();
    for entry in holders {
        let mut holder = entry.holder();
        if holder.mode == Mode::Shared {
            holder.fence = shared_fence;
        }
        holder.endless = entry.lease == 0;
        holder.remaining = match leases.get(&entry.lease) {
            Some(left) => *left,
            None => {
                let left = shared.time_to_live(entry.lease).await?.map(|(left, _)| left);
                let left = left.filter(|left| *left < Duration::MAX);
                leases.insert(entry.lease, left);
                left
            }
        };
        inspection.holders.push(holder);
    }
    inspection.waiters = u64::try_from(waiters).ok();
    Ok(inspection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_for_any_key() {
        for listed in [vec![], vec![2, 11]] {
            let position = Position { start: b"a:\xff/,1\0".to_vec(), listed };
            assert_eq!(Position::read(&position.cursor()), Some(position));
        }
        for other in ["", "a", "1", "1,x:a", ":\u{1f600}"] {
            assert_eq!(Position::read(&Cursor(other.to_owned())), None, "{other:?}");
        }
    }

    #[test]
    fn listing_remembers_names_with_keys_to_come() {
        let name = |name| LockName::new(name).unwrap();
        let raw = Keys { prefix: "p/".to_owned(), raw: true };
        let begun = Position { start: b"p/".to_vec(), listed: Vec::new() };
        let first = next(&raw, &begun, b"p/a/b/1", [name("a"), name("a/b"), name("0")].iter());
        assert!(first.is_listed(b"p/a/") && first.is_listed(b"p/a/b/"));
        assert_eq!(first.listed.len(), 2);
        let second = next(&raw, &first, b"p/a/c/1", [name("a/c")].iter());
        assert!(second.is_listed(b"p/a/") && second.is_listed(b"p/a/c/"));
        assert_eq!(second.listed.len(), 2);
        let encoded = Keys { raw: false, ..raw };
        let first = next(&encoded, &begun, b"p/a/1", [name("a")].iter());
        assert_eq!(first, Position { start: b"p/a0".to_vec(), listed: Vec::new() });
    }
}
