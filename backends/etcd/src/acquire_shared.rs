//! The client reads the queue. If the claim can be granted, the client adds its key unless another
//! was added after the read. If the claim must wait, or after `JOINS` failed attempts, it adds the
//! key unconditionally. So a claim that doesn't wait can delay others only after `JOINS` attempts.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lockwright_core::backend_util::queue_admission::{self, Reader};
use lockwright_core::{Error, Mode, Result};

use crate::acquire::{AcquireSteps, Step};
use crate::errors::Effect;
use crate::keys::after;
use crate::leases::Lease;
use crate::put_key::is_new;
use crate::queue::QueueSnapshot;
use crate::shared::{Found, Place};
use crate::value::{Entry, Value, fence};

const JOINS: usize = 3;

enum Put {
    There(Place),
    Missed,
    Not(Step),
}

impl AcquireSteps<'_> {
    pub(crate) async fn enqueue_shared(&mut self, lease: Arc<Lease>) -> Result<Step> {
        let (shared, claim) = (self.shared, self.claim);
        let key = shared.keys().own(claim, lease.id);
        self.enter(&lease, &key, 0, self.is_unsure());
        for _ in 0..JOINS {
            let snapshot = match shared.queue_snapshot(&claim.name, &lease).await {
                Ok(snapshot) => snapshot,
                Err(failure) => {
                    if !self.is_unsure() {
                        shared.forget(claim);
                    }
                    return Err(failure);
                }
            };
            if let Some(own) = snapshot.entries.iter().find(|one| one.token() == Some(claim.token))
            {
                if own.key != key {
                    return self.take_over(own).await;
                }
                self.enter(&lease, &key, own.created, self.is_unsure());
                return Ok(Step::Again);
            }
            if let Some(first) = snapshot.entries.first() {
                self.refuse_another_kind(first).await?;
            }
            if !queue_admission::admits(&snapshot.modes(snapshot.entries.len()), claim.mode) {
                if let Some(first) = snapshot.entries.first().filter(|_| !self.waits) {
                    return Ok(self.reject_busy(self.is_unsure(), first));
                }
                break;
            }
            let readers = snapshot.readers();
            let with = (0..readers.len()).min_by_key(|at| readers[*at].fence());
            let with = with.filter(|_| claim.mode == Mode::Shared).map(|at| &snapshot.entries[at]);
            match self.put(&lease, &key, Some((&snapshot, with))).await? {
                Put::There(place) => {
                    let fence = with.map_or(fence(place.created), Entry::fence);
                    return self.granted(&place, fence, false).await;
                }
                Put::Missed => {}
                Put::Not(step) => return Ok(step),
            }
        }
        match self.put(&lease, &key, None).await? {
            Put::There(place) => self.check_shared(&place).await,
            Put::Missed => Ok(Step::Again),
            Put::Not(step) => Ok(step),
        }
    }

    /// Puts the key. With a `snapshot`, fails if a key was added to the queue since, or if the key
    /// of the reader whose fence this claim takes has changed.
    async fn put(
        &mut self,
        lease: &Arc<Lease>,
        key: &[u8],
        snapshot: Option<(&QueueSnapshot, Option<&Entry>)>,
    ) -> Result<Put> {
        let (shared, claim) = (self.shared, self.claim);
        let tombstone = shared.keys().tombstone(claim.token);
        let mut conditions = vec![is_new(key), is_new(&tombstone)];
        let mut value = Value::of(claim);
        if let Some((snapshot, with)) = snapshot {
            let queue = shared.keys().queue(&claim.name);
            let is_old =
                Compare::create_revision(queue.clone(), CompareOp::Less, snapshot.revision + 1);
            conditions.push(is_old.with_range(after(&queue)));
            conditions.extend(with.map(Entry::is_unchanged));
            value.taken = with.map(|with| with.fence().get());
        }
        let on_lease = PutOptions::new().with_lease(lease.id);
        let txn = Txn::new()
            .when(conditions)
            .and_then([TxnOp::put(key, value.bytes(), Some(on_lease))])
            .or_else([TxnOp::get(key, None), TxnOp::get(tombstone, None)]);
        let Some((answered, is_unsure)) = self.send(txn, lease, key).await? else {
            return Ok(Put::Not(Step::Again));
        };
        if answered.succeeded {
            return Ok(Put::There(self.enter(lease, key, answered.revision, is_unsure)));
        }
        let (own, tombstone) = (answered.found.first(), answered.found.get(1));
        self.refuse_ended(lease, tombstone.and_then(Found::as_tombstone))?;
        let own = own.and_then(Found::first);
        self.enter(lease, key, own.as_ref().map_or(0, |own| own.created), is_unsure);
        Ok(if own.is_some() { Put::Not(Step::Again) } else { Put::Missed })
    }

    pub(crate) async fn check_shared(&mut self, place: &Place) -> Result<Step> {
        let (shared, claim, lease) = (self.shared, self.claim, &place.lease);
        if !self.keep_fixed(place).await? {
            return Ok(Step::Again);
        }
        let snapshot = shared.queue_snapshot(&claim.name, lease).await?;
        let Some(at) = snapshot.entries.iter().position(|entry| entry.key == place.key) else {
            let tombstone = shared.tombstone(claim.token, Some(lease)).await?;
            return self.own_is_gone(place, tombstone).await;
        };
        let own = &snapshot.entries[at];
        if let Some(step) = self.own_has_changed(place, own).await? {
            return Ok(step);
        }
        let before = snapshot.modes(at);
        if queue_admission::admits(&before, claim.mode) {
            let waiters = snapshot.entries.len() > snapshot.holders();
            let from = (claim.mode == Mode::Shared)
                .then(|| queue_admission::fence_source(&snapshot.readers(), at));
            let from = from.flatten().map(|from| &snapshot.entries[from]);
            if let Some(from) = from
                && !self.take_fence(lease, own, from).await?
            {
                return Ok(Step::Again);
            }
            return self.granted(place, from.unwrap_or(own).fence(), waiters).await;
        }
        let blocking = snapshot.entries[queue_admission::blockers(&before, claim.mode)].iter();
        let blockers: Vec<_> =
            blocking.map(|entry| (entry.key.as_slice(), entry.created)).collect();
        self.wait_or_leave(place, &snapshot.entries[..at], &blockers).await
    }

    async fn take_fence(&self, lease: &Lease, own: &Entry, from: &Entry) -> Result<bool> {
        let Some(value) = &own.value else { return Ok(false) };
        let value = Value { taken: Some(from.fence().get()), ..value.clone() };
        let on_its_lease = PutOptions::new().with_ignore_lease();
        let put = TxnOp::put(own.key.clone(), value.bytes(), Some(on_its_lease));
        let txn = Txn::new().when([own.is_unchanged(), from.is_unchanged()]).and_then([put]);
        let noting = self.shared.transact(txn, Effect::Changes, Some(lease)).await;
        // If an earlier, unanswered copy of the request stored the value, `succeeded` is false, and
        // the caller reads the queue again.
        Ok(noting?.succeeded)
    }

    pub(crate) async fn refuse_another_kind(&self, first: &Entry) -> Result<()> {
        if first.mode().is_of_the_kind_of(self.claim.mode) {
            return Ok(());
        }
        self.give_up(self.is_unsure()).await?;
        Err(Error::other_kind(self.claim.mode).with_backend("etcd"))
    }
}

impl QueueSnapshot {
    fn modes(&self, count: usize) -> Vec<Mode> {
        self.entries[..count].iter().map(Entry::mode).collect()
    }

    fn holders(&self) -> usize {
        queue_admission::holders(&self.modes(self.entries.len()))
    }

    fn readers(&self) -> Vec<Reader> {
        let readers = self.entries.iter().take_while(|entry| entry.mode() == Mode::Shared);
        readers.map(Entry::reader).collect()
    }
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{claim, fails, grant, released};
    use lockwright_core::{
        BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Reason, ReleaseMode,
    };
    use lockwright_testbed as testbed;

    use super::*;
    use crate::{Etcd, release};

    fn reader() -> Claim {
        Claim { mode: Mode::Shared, ..claim("x") }
    }

    async fn server_and_client() -> (testbed::Etcd, Etcd) {
        let server = testbed::Etcd::options().members(1).start().unwrap();
        let etcd = Etcd::connect(&server.url()).await.unwrap();
        (server, etcd)
    }

    async fn mark_broken(etcd: &Etcd, claim: &Claim) {
        let target = BreakTarget::Token(claim.token);
        etcd.break_lock(&claim.name, target, BreakMode::RunOut, "me", "why").await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn put_of_a_reader_keeps_its_earlier_key_and_its_tombstone_on_etcd() {
        let (_server, etcd) = server_and_client().await;
        let (shared, reader) = (&etcd.shared, reader());
        let lease = shared.reserve_lease(&reader).await.unwrap();
        let key = shared.keys().own(&reader, lease.id);
        let mut steps = AcquireSteps::new(shared, &reader, true);
        let put = steps.put(&lease, &key, None).await.unwrap();
        let Put::There(place) = put else { panic!("the key is new") };
        mark_broken(&etcd, &reader).await;
        let put = steps.put(&lease, &key, None).await.unwrap();
        assert!(matches!(put, Put::Not(Step::Again)), "the key was put again");
        release::put_tombstone(shared, &reader, &place).await.unwrap();
        let put = steps.put(&lease, &key, None).await;
        fails(put.map(drop), ErrorKind::Lost(Reason::Gone));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fence_is_taken_only_between_unchanged_keys_on_etcd() {
        let (_server, etcd) = server_and_client().await;
        let (shared, [first, second, third]) = (&etcd.shared, [(); 3].map(|()| reader()));
        grant(&etcd, &first).await;
        grant(&etcd, &second).await;
        let lease = shared.registry.place(&second).unwrap().lease;
        let read = async || shared.queue_snapshot(&second.name, &lease).await.unwrap();
        let steps = AcquireSteps::new(shared, &second, true);
        let stale = read().await.entries;
        mark_broken(&etcd, &second).await;
        let fresh = read().await.entries;
        assert!(!steps.take_fence(&lease, &stale[1], &stale[0]).await.unwrap(), "own key");
        assert!(steps.take_fence(&lease, &fresh[1], &fresh[0]).await.unwrap());
        let stale = read().await;
        released(&etcd, &first, ReleaseMode::Plain).await;
        let [from, own] = &stale.entries[..] else { panic!("{stale:?}") };
        assert!(!steps.take_fence(&lease, own, from).await.unwrap(), "other key");
        let mut joins = AcquireSteps::new(shared, &third, false);
        let key = shared.keys().own(&third, lease.id);
        let put = joins.put(&lease, &key, Some((&stale, Some(from)))).await.unwrap();
        assert!(matches!(put, Put::Missed), "it joined a reader that has left");
    }
}
