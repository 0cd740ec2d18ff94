//! Reads of a lock's queue. `etcd_client` rejects responses above 4 MiB, and other programs may
//! store large values, so the client reads pages, without values where possible.

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp};
use lockwright_core::backend_util::queue_admission;
use lockwright_core::{LockName, Mode, Result, Token};

use crate::errors::{Effect, is_compacted, is_too_large};
use crate::keys::{self, after, behind, is_in_queue};
use crate::leases::Lease;
use crate::shared::{Found, Shared, TxnReply};
use crate::value::Entry;

/// Keys per page without values. A page of this backend's longest keys takes 2 MiB.
const KEYS: i64 = 1_000;

const VALUES: i64 = 400;

const TRIES: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) holders: Vec<Entry>,
    /// All keys in order of creation, including the holders'.
    pub(crate) places: Vec<QueueKey>,
}

#[derive(Debug)]
pub(crate) struct QueueSnapshot {
    pub(crate) entries: Vec<Entry>,
    pub(crate) revision: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct QueueKey {
    pub(crate) key: Vec<u8>,
    pub(crate) created: i64,
}

impl QueueKey {
    pub(crate) fn of(found: &KeyValue) -> Self {
        Self { key: found.key().to_vec(), created: found.create_revision() }
    }
}

impl Shared {
    /// Reads a queue. A claim's `lease` limits each request to half of the lease's TTL.
    pub(crate) async fn queue(&self, name: &LockName, lease: Option<&Lease>) -> Result<Queue> {
        let queue = self.keys().queue(name);
        unless_compacted(|| self.read_queue(&queue, lease)).await
    }

    pub(crate) async fn queue_snapshot(
        &self,
        name: &LockName,
        lease: &Lease,
    ) -> Result<QueueSnapshot> {
        let queue = self.keys().queue(name);
        unless_compacted(|| self.read_snapshot(&queue, 0, Some(lease))).await
    }

    async fn read_queue(&self, queue: &[u8], lease: Option<&Lease>) -> Result<Queue> {
        let (found, revision) = self.all(queue, 0, true, lease).await?;
        let places: Vec<_> = found.iter().map(QueueKey::of).collect();
        let modes: Vec<Mode> = places.iter().map(|place| keys::mode(&place.key)).collect();
        let holders = match (places.as_slice(), queue_admission::holders(&modes)) {
            ([], _) => Vec::new(),
            ([QueueKey { key, .. }, ..], 0 | 1) => {
                let at = GetOptions::new().with_revision(revision);
                let found = self.some(key.clone(), behind(key), at, 1, lease).await?.0;
                found.first().into_iter().collect()
            }
            (_, count) => {
                let mut entries = self.read_snapshot(queue, revision, lease).await?.entries;
                entries.truncate(count);
                entries
            }
        };
        Ok(Queue { holders, places })
    }

    async fn read_snapshot(
        &self,
        queue: &[u8],
        revision: i64,
        lease: Option<&Lease>,
    ) -> Result<QueueSnapshot> {
        let (found, revision) = self.all(queue, revision, false, lease).await?;
        Ok(QueueSnapshot { entries: found.iter().map(Entry::of).collect(), revision })
    }

    /// Reads all pages as of one revision. A `revision` of 0 means the latest.
    async fn all(
        &self,
        queue: &[u8],
        mut revision: i64,
        keys_only: bool,
        lease: Option<&Lease>,
    ) -> Result<(Vec<KeyValue>, i64)> {
        let (mut start, end) = (Some(queue.to_vec()), after(queue));
        let mut all = Vec::new();
        while let Some(from) = start {
            let options = GetOptions::new().with_revision(revision);
            let (options, limit) =
                if keys_only { (options.with_keys_only(), KEYS) } else { (options, VALUES) };
            let (found, latest) = self.some(from, end.clone(), options, limit, lease).await?;
            if revision == 0 {
                revision = latest;
            }
            start = found.next_start();
            all.extend(found.keys.into_iter().filter(|found| is_in_queue(queue, found.key())));
        }
        all.sort_by_key(KeyValue::create_revision);
        Ok((all, revision))
    }

    pub(crate) async fn locate(&self, name: &LockName, token: Token) -> Result<Option<Entry>> {
        let queue = self.keys().queue(name);
        let mut start = Some(queue.clone());
        while let Some(from) = start {
            let found = self.page(from, after(&queue)).await?;
            let mut entries = found.keys.iter().filter(|found| is_in_queue(&queue, found.key()));
            let entry = entries.find_map(|found| {
                Some(Entry::of(found)).filter(|entry| entry.token() == Some(token))
            });
            if entry.is_some() {
                return Ok(entry);
            }
            start = found.next_start();
        }
        Ok(None)
    }

    pub(crate) async fn page(&self, start: Vec<u8>, end: Vec<u8>) -> Result<Found> {
        Ok(self.some(start, end, GetOptions::new(), VALUES, None).await?.0)
    }

    /// Reads one page. If the response is too large, retries with fewer keys, and finally with one
    /// key without its value, which only another program makes so large.
    async fn some(
        &self,
        start: Vec<u8>,
        end: Vec<u8>,
        options: GetOptions,
        mut limit: i64,
        lease: Option<&Lease>,
    ) -> Result<(Found, i64)> {
        let mut options = options.with_range(end);
        let mut is_alone = false;
        loop {
            let get = TxnOp::get(start.clone(), Some(options.clone().with_limit(limit)));
            match self.transact(Txn::new().and_then([get]), Effect::Reads, lease).await {
                Err(failure) if is_too_large(&failure) && !is_alone => {
                    is_alone = limit == 1;
                    if is_alone {
                        options = options.with_keys_only();
                    }
                    limit = (limit / 8).max(1);
                }
                Err(failure) => return Err(failure),
                Ok(TxnReply { revision, found, .. }) => {
                    return Ok((found.into_iter().next().unwrap_or_default(), revision));
                }
            }
        }
    }
}

/// Repeats the read if etcd compacted the read's revision before the last page.
async fn unless_compacted<T, F>(read: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut tries = 1;
    loop {
        match read().await {
            Err(failure) if is_compacted(&failure) && tries < TRIES => tries += 1,
            read => return read,
        }
    }
}
