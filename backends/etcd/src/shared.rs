use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    GetOptions, KeyValue, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lockwright_core::backend_util::{ClaimRegistry, EndedClaims};
use lockwright_core::{BootInstant, Claim, Clock, Event, LockName, Reason, Result, Token};
use tokio::sync::watch;

use crate::errors::{Effect, is_lease_not_found, unexpected_response};
use crate::keys::{Keys, behind};
use crate::leases::{self, Lease, Pool};
use crate::members::{Answer, Link, Members};
use crate::revisions::Revisions;
use crate::value::{Entry, Tombstone};
use crate::watched::{SLOW_POLL, Wakeups};

const PROOFS: usize = 3;

/// Operations per transaction. etcd allows 128 by default.
pub(crate) const OPERATIONS_AT_ONCE: usize = 100;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Arc<Members>,
    pub(crate) clock: Clock,
    pub(crate) leases: Pool,
    pub(crate) registry: ClaimRegistry<Place>,
    pub(crate) ended_claims: EndedClaims,
    pub(crate) wakeups: Wakeups,
    pub(crate) revisions: Revisions,
    pub(crate) alive: watch::Receiver<()>,
}

#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) lease: Arc<Lease>,
    pub(crate) key: Vec<u8>,
    /// The key's creation revision; 0 until it is known.
    pub(crate) created: i64,
    /// True if an unanswered request may still create the key.
    pub(crate) is_unsure: bool,
    pub(crate) is_held: bool,
    pub(crate) is_overdue: bool,
}

impl Place {
    pub(crate) fn new(lease: &Arc<Lease>, key: &[u8], created: i64) -> Self {
        let (lease, key) = (Arc::clone(lease), key.to_vec());
        Self { lease, key, created, is_unsure: false, is_held: false, is_overdue: false }
    }
}

pub(crate) struct TxnReply {
    pub(crate) succeeded: bool,
    pub(crate) revision: i64,
    pub(crate) found: Vec<Found>,
    pub(crate) was_unsure: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: Vec<KeyValue>,
    /// The number of matching keys, including those beyond the read's limit.
    pub(crate) count: i64,
    more: bool,
}

impl Found {
    pub(crate) fn first(&self) -> Option<Entry> {
        self.keys.first().map(Entry::of)
    }

    pub(crate) fn as_tombstone(&self) -> Option<Tombstone> {
        self.keys.first().map(|found| Tombstone::read(found.value()))
    }

    pub(crate) fn next_start(&self) -> Option<Vec<u8>> {
        self.keys.last().filter(|_| self.more).map(|last| behind(last.key()))
    }
}

impl Shared {
    pub(crate) fn keys(&self) -> &Keys {
        &self.members.config.keys
    }

    /// Runs a transaction. Its response may prove that `lease` is alive.
    pub(crate) async fn transact(
        &self,
        txn: Txn,
        effect: Effect,
        lease: Option<&Lease>,
    ) -> Result<TxnReply> {
        let kept = lease.and_then(Lease::kept_alive);
        let limit = self.members.limit(lease.map_or(Duration::MAX, |lease| lease.ttl));
        let before = self.revisions.highest();
        let request = |link: Arc<Link>| {
            let (mut kv, txn) = (link.client.kv_client(), txn.clone());
            async move { kv.txn(txn).await }
        };
        let Answer { value, link, was_unsure } = self.members.ask(effect, limit, request).await?;
        let answered = read(&value, was_unsure)
            .ok_or_else(|| unexpected_response(effect, "a transaction without a header"))?;
        self.revisions.saw(answered.revision, before);
        if let Some(lease) = lease {
            let term = value.header().map_or(0, |header| header.raft_term());
            lease.prove(kept, link.number, term);
        }
        Ok(answered)
    }

    pub(crate) async fn get(
        &self,
        gets: impl Into<Vec<TxnOp>>,
        lease: Option<&Lease>,
    ) -> Result<Vec<Found>> {
        let txn = Txn::new().and_then(gets);
        Ok(self.transact(txn, Effect::Reads, lease).await?.found)
    }

    pub(crate) async fn tombstone(
        &self,
        token: Token,
        lease: Option<&Lease>,
    ) -> Result<Option<Tombstone>> {
        let get = TxnOp::get(self.keys().tombstone(token), None);
        let found = self.get([get], lease).await?;
        Ok(found.first().and_then(Found::as_tombstone))
    }

    pub(crate) async fn confirm(&self, lease: &Arc<Lease>) -> Result<()> {
        let begun = self.clock.now();
        for _ in 0..PROOFS {
            self.keep_alive(lease).await?;
            self.get([TxnOp::get(self.keys().probe_key(), None)], Some(lease)).await?;
            if lease.valid_until() >= begun + lease.ttl {
                return Ok(());
            }
        }
        Err(Effect::Reads.unanswered(
            "the cluster's leader or members changed during each attempt to renew the lease",
        ))
    }

    pub(crate) async fn keep_alive(&self, lease: &Arc<Lease>) -> Result<()> {
        let request = |link: Arc<Link>| async move { lease.keep_alive(&link, &self.clock).await };
        let kept = self.members.ask(Effect::Reads, self.members.limit(lease.ttl), request).await;
        if kept.as_ref().is_err_and(is_lease_not_found) {
            if self.has_key(lease).await? {
                return Err(Effect::Reads.unanswered("the new leader doesn't have the lease yet"));
            }
            self.lose(lease);
        }
        kept.map(drop)
    }

    /// Returns whether a lease whose keep-alive was rejected still has a key, and so is alive. Up
    /// to etcd 3.4, a new leader may reject keep-alives until it has caught up.
    async fn has_key(&self, lease: &Lease) -> Result<bool> {
        let is_on_it = |place: &Place| place.lease.id == lease.id && place.created > 0;
        let on_it = self.registry.all(|_, place| is_on_it(place)).into_iter();
        // Read several keys: an unanswered release may have deleted one.
        let reads = on_it.take(OPERATIONS_AT_ONCE).map(|(.., place)| TxnOp::get(place.key, None));
        let reads: Vec<_> = reads.collect();
        if reads.is_empty() {
            return Ok(false);
        }
        let found = self.get(reads, None).await?;
        Ok(found.iter().filter_map(Found::first).any(|entry| entry.lease == lease.id))
    }

    pub(crate) async fn loss_reason(&self, token: Token) -> Result<Reason> {
        let broken = self.tombstone(token, None).await?.and_then(|tombstone| tombstone.broken);
        Ok(if broken.is_some() { Reason::Broken } else { Reason::Gone })
    }

    pub(crate) fn has_claims_on(&self, lease: &Lease) -> bool {
        self.registry.any(|_, _, place| place.lease.id == lease.id && !place.is_overdue)
    }

    pub(crate) fn lose(&self, lease: &Lease) {
        lease.set_gone();
        self.leases.remove(lease);
        for (name, token, place) in self.registry.leave_all(|place| place.lease.id == lease.id) {
            if !place.is_held {
                self.wakeups.subscribers.wake(&name);
            } else if !place.is_overdue && self.wakeups.forget(&place.key).is_some() {
                self.wakeups.subscribers.send(&Event::Lost(token, Reason::SessionEnded));
            }
        }
    }

    pub(crate) fn forget(&self, claim: &Claim) {
        if let Some(place) = self.registry.leave(claim) {
            self.vacate(&claim.name, claim.token, &place);
        }
    }

    pub(crate) fn vacate(&self, name: &LockName, token: Token, place: &Place) {
        self.wakeups.forget(&place.key);
        place.lease.drop_claim(name, token, self.clock.now());
        if place.lease.is_fixed {
            self.revoke_soon(&place.lease);
        }
    }

    pub(crate) fn revoke_soon(&self, lease: &Lease) {
        lease.set_gone();
        self.members.runtime().spawn(leases::revoke(self.members.in_use(), lease.id));
    }

    /// Returns a lease's remaining time, rounded up to seconds, and its granted TTL.
    pub(crate) async fn time_to_live(&self, lease: i64) -> Result<Option<(Duration, Duration)>> {
        if lease == 0 {
            return Ok(Some((Duration::MAX, Duration::MAX)));
        }
        let request = |link: Arc<Link>| async move {
            link.client.lease_client().time_to_live(lease, None).await
        };
        let limit = self.members.limit(Duration::MAX);
        match self.members.ask(Effect::Reads, limit, request).await {
            Ok(Answer { value, .. }) if value.ttl() >= 0 => {
                let granted = Duration::from_secs(value.granted_ttl().unsigned_abs());
                let left = Duration::from_secs(value.ttl().unsigned_abs() + 1);
                Ok(Some((left.min(granted), granted)))
            }
            Ok(_) => Ok(None),
            Err(failure) if is_lease_not_found(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Returns false if the claim isn't registered or is being removed.
    pub(crate) fn keep(&self, claim: &Claim, ends: BootInstant) -> bool {
        self.registry.extend_if(claim, ends, |place| !place.is_overdue)
    }

    pub(crate) fn queued_until(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(SLOW_POLL * 2)
    }
}

pub(crate) fn first(revision: i64) -> GetOptions {
    sorted(SortOrder::Ascend, revision)
}

pub(crate) fn last(revision: i64) -> GetOptions {
    sorted(SortOrder::Descend, revision).with_keys_only()
}

fn sorted(order: SortOrder, revision: i64) -> GetOptions {
    let all = GetOptions::new().with_prefix().with_sort(SortTarget::Create, order).with_limit(1);
    if revision == i64::MAX { all } else { all.with_max_create_revision(revision) }
}

fn read(response: &TxnResponse, was_unsure: bool) -> Option<TxnReply> {
    let mut found = Vec::new();
    for operation in response.op_responses() {
        if let TxnOpResponse::Get(mut got) = operation {
            found.push(Found { keys: got.take_kvs(), count: got.count(), more: got.more() });
        }
    }
    let revision = response.header()?.revision();
    Some(TxnReply { succeeded: response.succeeded(), revision, found, was_unsure })
}
