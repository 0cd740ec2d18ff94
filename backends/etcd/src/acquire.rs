use std::sync::Arc;
use std::time::Duration;

use etcd_client::{PutOptions, Txn, TxnOp};
use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Claim, Error, ErrorKind, Fence, Granted, Mode, Reason,
    Result, Wait,
};

use crate::errors::{Effect, error, is_lease_not_found};
use crate::keys::is_in_queue;
use crate::leases::Lease;
use crate::queue::QueueKey;
use crate::shared::{Found, Place, Shared, first, last};
use crate::value::{Entry, Tombstone, Value};
use crate::{release, value, wakeup};

const TRIES: usize = 5;

/// A waiter's polling interval while the watch is inactive.
const POLL: Duration = Duration::from_secs(1);

pub(crate) enum Step {
    Done(AcquireOutcome),
    Again,
}

pub(crate) struct AcquireSteps<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) claim: &'a Claim,
    pub(crate) waits: bool,
    /// True if the oldest key in the name's range belongs to another name, so the client must put
    /// its key in a non-empty range. With raw names, the range of `a` contains the keys of `a/b`.
    pub(crate) must_queue: bool,
    /// The number of key deletions that the watch reported before the request. After a later
    /// deletion of an awaited key, the waiter retries at once.
    deletions: usize,
    is_watched: bool,
    begun: BootInstant,
}

/// The key of a dropped call stays until its claim is released or overdue (`lease_tasks.rs`).
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    claim: &Claim,
    wait: Wait,
) -> Result<AcquireOutcome> {
    let had_place = shared.registry.place(claim).is_some();
    run(shared, claim, wait).await.map_err(|failure| {
        let is_explicit = matches!(failure.kind(), ErrorKind::Indeterminate | ErrorKind::Lost(_));
        let may_exist = |place: Place| place.created > 0 || place.is_unsure;
        if is_explicit || had_place || !shared.registry.place(claim).is_some_and(may_exist) {
            return failure;
        }
        Effect::Changes
            .unanswered("the key was written, but reading its queue position failed")
            .with_source(failure)
    })
}

async fn run(shared: &Arc<Shared>, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
    let waits = wait != Wait::No;
    if waits {
        wakeup::wait_until_active(shared).await;
    }
    let mut steps = AcquireSteps::new(shared, claim, waits);
    for _ in 0..TRIES {
        if let Step::Done(outcome) = steps.next().await? {
            return Ok(outcome);
        }
    }
    let message = "the lock's queue or its leases changed during each attempt; retry";
    Err(error(ErrorKind::Indeterminate, message))
}

impl<'a> AcquireSteps<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>, claim: &'a Claim, waits: bool) -> Self {
        Self {
            shared,
            claim,
            waits,
            must_queue: false,
            deletions: shared.wakeups.deletion_count(),
            is_watched: shared.wakeups.is_active(),
            begun: shared.clock.now(),
        }
    }

    async fn next(&mut self) -> Result<Step> {
        let (shared, claim) = (self.shared, self.claim);
        if shared.ended_claims.reason(claim).is_some() {
            return Err(ended(None));
        }
        let lease = match shared.registry.place(claim) {
            Some(place) if place.lease.is_gone() => {
                shared.forget(claim);
                return Ok(Step::Again);
            }
            Some(place) if place.is_overdue => return Err(expired(shared, claim)),
            Some(place) if !place.is_held && !shared.keep(claim, shared.queued_until(claim)) => {
                return Err(expired(shared, claim));
            }
            Some(place) if place.created > 0 => {
                return match claim.mode {
                    Mode::Exclusive => self.check(&place).await,
                    _ => self.check_shared(&place).await,
                };
            }
            Some(place) => place.lease,
            None => shared.reserve_lease(claim).await?,
        };
        match claim.mode {
            Mode::Exclusive => self.enqueue(lease).await,
            _ => self.enqueue_shared(lease).await,
        }
    }

    /// If `is_unsure`, an earlier request may still add the claim's key, so the claim stays
    /// registered.
    pub(crate) fn reject_busy(&self, is_unsure: bool, owner: &Entry) -> Step {
        if !is_unsure {
            self.shared.forget(self.claim);
        }
        Step::Done(AcquireOutcome::Busy(busy(owner, is_unsure)))
    }

    /// Forgets the claim. If `is_unsure`, first puts a tombstone against an earlier request that
    /// may still arrive.
    pub(crate) async fn give_up(&self, is_unsure: bool) -> Result<()> {
        let (shared, claim) = (self.shared, self.claim);
        if let Some(place) = shared.registry.place(claim).filter(|_| is_unsure) {
            release::put_tombstone(shared, claim, &place).await?;
        }
        shared.forget(claim);
        Ok(())
    }

    async fn check(&mut self, place: &Place) -> Result<Step> {
        let (shared, claim) = (self.shared, self.claim);
        if !self.keep_fixed(place).await? {
            return Ok(Step::Again);
        }
        let queue = shared.keys().queue(&claim.name);
        let gets = [
            TxnOp::get(place.key.as_slice(), None),
            TxnOp::get(shared.keys().tombstone(claim.token), None),
            TxnOp::get(queue.clone(), Some(first(i64::MAX))),
            TxnOp::get(queue, Some(last(place.created - 1))),
        ];
        let found = shared.get(gets, Some(&place.lease)).await?;
        let [own, tombstone, owner, previous] = several(found);
        let Some(own) = own.first().filter(|own| own.token() == Some(claim.token)) else {
            return self.own_is_gone(place, tombstone.as_tombstone()).await;
        };
        if let Some(step) = self.own_has_changed(place, &own).await? {
            return Ok(step);
        }
        self.place(place, owner, previous.keys.first().map(QueueKey::of)).await
    }

    /// Renews a waiting fixed claim's lease, because no background task does. Its TTL starts only
    /// with its grant. Returns false if the lease has ended.
    pub(crate) async fn keep_fixed(&self, Place { lease, is_held, .. }: &Place) -> Result<bool> {
        if !lease.is_fixed || *is_held || self.shared.clock.now() < lease.due() {
            return Ok(true);
        }
        match self.shared.confirm(lease).await {
            Ok(()) => Ok(true),
            Err(failure) if is_lease_not_found(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) async fn own_is_gone(
        &self,
        place: &Place,
        tombstone: Option<Tombstone>,
    ) -> Result<Step> {
        if place.is_held || tombstone.is_some() {
            place.lease.count_tombstone(self.shared.clock.now());
            self.give_up(self.is_unsure() && tombstone.is_none()).await?;
            return Err(ended(tombstone.and_then(|tombstone| tombstone.broken).as_deref()));
        }
        if self.is_unsure() {
            self.enter(&place.lease, &place.key, 0, true);
        } else {
            self.shared.forget(self.claim);
        }
        Ok(Step::Again)
    }

    pub(crate) async fn own_has_changed(&self, place: &Place, own: &Entry) -> Result<Option<Step>> {
        if own.created != place.created {
            self.enter(&place.lease, &own.key, own.created, self.is_unsure());
            return Ok(Some(Step::Again));
        }
        if let Some(note) = own.broken() {
            return Err(ended(Some(note)));
        }
        if own.lease != place.lease.id {
            return self.take_over(own).await.map(Some);
        }
        Ok(None)
    }

    pub(crate) async fn place(
        &mut self,
        place: &Place,
        owner: Found,
        previous: Option<QueueKey>,
    ) -> Result<Step> {
        let (shared, name) = (self.shared, &self.claim.name);
        let queue = shared.keys().queue(name);
        let (waiters, first) = (owner.count > 1, owner.first());
        let of_owner = first.as_ref().map(|owner| &owner.key);
        let of_previous = previous.as_ref().map(|previous| &previous.key);
        let mut keys = of_owner.into_iter().chain(of_previous);
        let (owner, previous, waiters) = if keys.all(|key| is_in_queue(&queue, key)) {
            (first, previous, waiters)
        } else {
            // The reply contains another name's key (see `must_queue`), so read the whole queue.
            let all = shared.queue(name, Some(&place.lease)).await?;
            let is_before = |other: &&QueueKey| other.created < place.created;
            let previous = all.places.iter().rfind(is_before).cloned();
            (all.holders.into_iter().next(), previous, all.places.len() > 1)
        };
        let Some(owner) = owner else { return Ok(Step::Again) };
        if owner.key == place.key {
            return self.granted(place, value::fence(place.created), waiters).await;
        }
        let blocker = previous.as_ref().map_or((owner.key.as_slice(), owner.created), |previous| {
            (previous.key.as_slice(), previous.created)
        });
        self.wait_or_leave(place, std::slice::from_ref(&owner), &[blocker]).await
    }

    /// Keeps the claim in the queue behind the entries `before`, to wait for the keys `blockers`.
    /// Deletes its key instead if the claim doesn't wait, the first entry has another lock type, or
    /// an entry is the claim's own earlier key on another lease, for which it would wait.
    pub(crate) async fn wait_or_leave(
        &self,
        Place { lease, key, created, .. }: &Place,
        before: &[Entry],
        blockers: &[(&[u8], i64)],
    ) -> Result<Step> {
        let (shared, claim) = (self.shared, self.claim);
        let Some(owner) = before.first() else { return Ok(Step::Again) };
        let is_alike = owner.mode().is_of_the_kind_of(claim.mode);
        let earlier = before.iter().find(|one| one.token() == Some(claim.token));
        if !is_alike || earlier.is_some() || !self.waits {
            release::delete(shared, key, *created).await?;
            self.refuse_another_kind(owner).await?;
            let Some(earlier) = earlier else {
                return Ok(self.reject_busy(self.is_unsure(), owner));
            };
            shared.forget(claim);
            return self.take_over(earlier).await;
        }
        if !shared.keep(claim, shared.queued_until(claim)) {
            return Ok(Step::Again);
        }
        shared.wakeups.subscribers.waits(&claim.name);
        let mut busy = busy(owner, true);
        // A fixed claim's next poll renews the lease (`keep_fixed`), so poll when that is due.
        let until_due = || lease.due().saturating_since(shared.clock.now());
        let intervals = [(!self.is_watched).then_some(POLL), lease.is_fixed.then(until_due)];
        busy.retry_after = intervals.into_iter().flatten().min();
        if !shared.wakeups.waits_for(&claim.name, blockers, self.deletions) {
            busy.retry_after = Some(Duration::ZERO);
        }
        Ok(Step::Done(AcquireOutcome::Busy(busy)))
    }

    /// Reports the grant. First renews a lease with little time left, which may have expired
    /// although its keys exist: etcd deletes them with a delay.
    pub(crate) async fn granted(&self, place: &Place, fence: Fence, waiters: bool) -> Result<Step> {
        let (shared, claim, lease) = (self.shared, self.claim, &place.lease);
        let left = || lease.valid_until().saturating_since(self.begun);
        if left() < claim.ttl * 2 / 3 {
            return match shared.confirm(lease).await {
                // Some etcd versions accept a keep-alive of a lease that they are about to end.
                Ok(()) => Ok(Step::Again),
                Err(failure) if is_lease_not_found(&failure) => Ok(Step::Again),
                Err(failure) => Err(Effect::Changes
                    .unanswered("confirming that the lease is alive failed")
                    .with_source(failure)),
            };
        }
        let left = left();
        let ends = shared.clock.now() + claim.ttl;
        let place = Place { is_unsure: self.is_unsure(), ..place.clone() };
        if !shared.hold(claim, place, ends) {
            return Ok(Step::Again);
        }
        let mut granted = Granted::new(fence);
        granted.valid = (left < claim.ttl).then_some(left);
        granted.waiters = waiters;
        Ok(Step::Done(AcquireOutcome::Granted(granted)))
    }

    pub(crate) async fn take_over(&self, entry: &Entry) -> Result<Step> {
        take_over(self.shared, self.claim, entry).await?;
        Ok(Step::Again)
    }

    pub(crate) fn is_unsure(&self) -> bool {
        self.shared.registry.place(self.claim).is_some_and(|place| place.is_unsure)
    }

    pub(crate) fn enter(
        &self,
        lease: &Arc<Lease>,
        key: &[u8],
        created: i64,
        is_unsure: bool,
    ) -> Place {
        let (shared, claim) = (self.shared, self.claim);
        let place = Place { is_unsure, ..Place::new(lease, key, created) };
        shared.registry.enter(claim, place.clone(), shared.queued_until(claim));
        place
    }
}

/// Moves the entry's key to a lease of this client, unless the key has changed since the read.
pub(crate) async fn take_over(shared: &Arc<Shared>, claim: &Claim, entry: &Entry) -> Result<()> {
    if let Some(note) = entry.broken() {
        return Err(ended(Some(note)));
    }
    shared.forget(claim);
    let lease = shared.reserve_lease(claim).await?;
    let place = Place::new(&lease, &entry.key, entry.created);
    shared.registry.enter(claim, place, shared.queued_until(claim));
    let value = entry.value.as_ref().map(Value::bytes).unwrap_or_default();
    let put = TxnOp::put(entry.key.clone(), value, Some(PutOptions::new().with_lease(lease.id)));
    let txn = Txn::new().when([entry.is_unchanged()]).and_then([put]);
    let moved = shared.transact(txn, Effect::Changes, Some(&lease)).await;
    let moved = moved.map(|answered| answered.succeeded || answered.was_unsure);
    let may_be_there = match &moved {
        Ok(moved) => *moved,
        Err(failure) => failure.kind() == ErrorKind::Indeterminate,
    };
    if !may_be_there {
        shared.forget(claim);
    }
    moved.map(drop)
}

fn busy(owner: &Entry, queued: bool) -> Busy {
    Busy { retry_after: None, holder: Some(Box::new(owner.holder())), queued }
}

fn expired(shared: &Shared, claim: &Claim) -> Error {
    shared.ended_claims.set(claim, Reason::Expired);
    let message = "the claim was neither repeated nor renewed in time and is being removed; \
                   acquire the lock again";
    error(ErrorKind::Lost(Reason::Expired), message)
}

pub(crate) fn ended(broken: Option<&str>) -> Error {
    let (reason, cause) = match broken {
        None => (Reason::Gone, "the claim was released or its key deleted".to_owned()),
        Some(note) => (Reason::Broken, format!("the hold was broken by {note}")),
    };
    error(ErrorKind::Lost(reason), format!("{cause}; acquire the lock again"))
}

pub(crate) fn several<const N: usize>(found: Vec<Found>) -> [Found; N] {
    let mut found = found.into_iter();
    std::array::from_fn(|_| found.next().unwrap_or_default())
}
