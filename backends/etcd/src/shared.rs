//! What the methods and the tasks of a backend share.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    GetOptions, KeyValue, LeaseGrantOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use lockwright_core::kit::{Over, Roster};
use lockwright_core::{
    BootInstant, Claim, Clock, ErrorKind, Event, LockName, Reason, Result, Token, Upkeep,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::errors::{self, Effect, error, odd_answer};
use crate::keeping;
use crate::keys::{Keys, behind};
use crate::leases::{Lease, Pool, Wanted, seconds};
use crate::members::{Answer, Link, Members, Trouble};
use crate::revisions::Revisions;
use crate::value::{Entry, Epitaph};
use crate::watching::{self, Watching};

/// How often it is tried to prove that a lease is alive, when elections come in between.
const PROOFS: usize = 3;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) members: Arc<Members>,
    pub(crate) clock: Clock,
    pub(crate) leases: Pool,
    pub(crate) roster: Roster<Place>,
    pub(crate) over: Over,
    pub(crate) watching: Watching,
    pub(crate) revisions: Revisions,
    /// Closed when the backend is dropped, which ends its tasks.
    pub(crate) alive: watch::Receiver<()>,
}

/// Where a claim stands on the server.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) lease: Arc<Lease>,
    pub(crate) key: Vec<u8>,
    /// When the key was created, once that is known.
    pub(crate) created: Option<i64>,
    /// A request for it may arrive late.
    pub(crate) is_unsure: bool,
    pub(crate) is_held: bool,
    /// Nobody renewed it in time, and it is being removed.
    pub(crate) is_over: bool,
}

/// A lease that carries a claim which isn't on the roster yet, for as long as this lives.
pub(crate) struct Seat<'a> {
    lease: Arc<Lease>,
    claim: &'a Claim,
    clock: Clock,
    is_taken: bool,
}

impl Seat<'_> {
    /// The claim goes to the roster right away, which knows of it from then on.
    pub(crate) fn taken(mut self) -> Arc<Lease> {
        self.is_taken = true;
        Arc::clone(&self.lease)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.lease.drop_claim(&self.claim.name, self.claim.token, self.clock.now());
        }
    }
}

/// What a transaction answered.
pub(crate) struct Answered {
    pub(crate) succeeded: bool,
    /// The revision of the store then, which is the one of a put in it.
    pub(crate) revision: i64,
    /// What each get in it found, with how much there was.
    pub(crate) found: Vec<Found>,
    pub(crate) was_unsure: bool,
}

/// What a get found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: Vec<KeyValue>,
    /// How many there are, whatever the limit was.
    pub(crate) count: i64,
    /// There are more than the limit.
    more: bool,
}

impl Found {
    pub(crate) fn first(&self) -> Option<Entry> {
        self.keys.first().map(Entry::of)
    }

    /// What stands under a tombstone.
    pub(crate) fn epitaph(&self) -> Option<Epitaph> {
        self.keys.first().map(|found| Epitaph::read(found.value()))
    }

    /// Where to go on reading a range, if it goes on.
    pub(crate) fn goes_on(&self) -> Option<Vec<u8>> {
        self.keys.last().filter(|_| self.more).map(|last| behind(last.key()))
    }
}

impl Shared {
    pub(crate) fn keys(&self) -> &Keys {
        &self.members.config().keys
    }

    /// A transaction. Given a lease, what it proves of that is noted.
    ///
    /// # Cancel safety
    /// If it is dropped, it may be carried out.
    pub(crate) async fn transact(
        &self,
        txn: Txn,
        effect: Effect,
        lease: Option<&Lease>,
    ) -> Result<Answered, Trouble> {
        let kept = lease.and_then(Lease::kept_alive);
        let limit = self.members.limit(lease.map_or(Duration::MAX, |lease| lease.ttl));
        let before = self.revisions.highest();
        let Answer { value, link, was_unsure } = self
            .members
            .ask(effect, limit, |link: Arc<Link>| {
                let (mut kv, txn) = (link.client.kv_client(), txn.clone());
                async move { kv.txn(txn).await }
            })
            .await?;
        let answered = read(&value, was_unsure)
            .ok_or_else(|| Trouble::Failed(odd_answer(effect, "a transaction without a header")))?;
        self.revisions.saw(answered.revision, before);
        if let Some(lease) = lease {
            let term = value.header().map_or(0, |header| header.raft_term());
            lease.prove(kept, link.number, term);
        }
        Ok(answered)
    }

    /// A lease that carries the claim from now on, and that is good for most of its TTL.
    pub(crate) async fn seat<'a>(self: &Arc<Self>, claim: &'a Claim) -> Result<Seat<'a>> {
        let seat = |lease| Seat { lease, claim, clock: self.clock.clone(), is_taken: false };
        let (seconds, is_fixed) = (seconds(claim.ttl), claim.upkeep == Upkeep::Fixed);
        if is_fixed {
            let limit = self.members.limit(claim.ttl);
            let lease = self.ask_for_lease(seconds, limit).await?;
            lease.carry_alone(claim);
            return Ok(seat(lease));
        }
        loop {
            let carried = || self.leases.carry(seconds, claim, self.clock.now());
            let seat = match carried() {
                Some(lease) => seat(lease),
                None => {
                    // However many stand in line when nobody answers, each is told so in time.
                    let limit = self.members.limit(claim.ttl);
                    let _one = timeout(limit, self.leases.asking.lock()).await.map_err(|_| {
                        let what = "others who need a lease too have not been answered for so long";
                        error(ErrorKind::Unavailable, format!("no member grants leases: {what}"))
                    })?;
                    match carried() {
                        Some(lease) => seat(lease),
                        None => {
                            let lease = self.ask_for_shared_lease(seconds).await?;
                            lease.carry(claim, self.clock.now());
                            self.leases.add(seconds, Arc::clone(&lease));
                            keeping::keep(self, &lease);
                            return Ok(seat(lease));
                        }
                    }
                }
            };
            if self.clock.now() <= seat.lease.due() + seat.lease.ttl / 8 {
                return Ok(seat);
            }
            match self.confirm(&seat.lease).await {
                Ok(()) => return Ok(seat),
                Err(Trouble::NoLease) => {}
                Err(Trouble::Failed(failure)) => return Err(failure),
            }
        }
    }

    /// Asks for a new lease for one fixed claim, until the limit.
    pub(crate) async fn ask_for_lease(&self, seconds: u64, limit: Duration) -> Result<Arc<Lease>> {
        let asked = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granting = |link: Arc<Link>| async move {
            let sent = self.clock.now();
            Ok((sent, link.client.lease_client().grant(asked, None).await?))
        };
        // One that is granted unheard carries nothing, and runs out.
        let (sent, granted) =
            self.members.ask(Effect::Reads, limit, granting).await.map_err(Trouble::error)?.value;
        let ttl = Duration::from_secs(granted.ttl().unsigned_abs());
        Ok(Arc::new(Lease::new(granted.id(), ttl, true, sent)))
    }

    /// A lease that is to be shared: the same one until it was heard of.
    async fn ask_for_shared_lease(&self, seconds: u64) -> Result<Arc<Lease>> {
        let asked = i64::try_from(seconds).unwrap_or(i64::MAX);
        let Wanted { id, since } = self.leases.wanted(seconds, self.clock.now());
        let granting = |link: Arc<Link>| async move {
            let sent = self.clock.now();
            let options = LeaseGrantOptions::new().with_id(id);
            match link.client.lease_client().grant(asked, Some(options)).await {
                Ok(granted) => Ok((sent, granted.ttl())),
                // Which of the requests was the one isn't known, nor whether the server made it longer.
                Err(error) if errors::is_granted_already(&error) => Ok((since, asked)),
                Err(error) => Err(error),
            }
        };
        let limit = self.members.limit(Duration::from_secs(seconds));
        let (sent, ttl) =
            self.members.ask(Effect::Reads, limit, granting).await.map_err(Trouble::error)?.value;
        Ok(Arc::new(Lease::new(id, Duration::from_secs(ttl.unsigned_abs()), false, sent)))
    }

    /// Keeps a lease alive, and proves that it was.
    pub(crate) async fn confirm(&self, lease: &Arc<Lease>) -> Result<(), Trouble> {
        let begun = self.clock.now();
        for _ in 0..PROOFS {
            self.keep_alive(lease).await?;
            let nobody = TxnOp::get(self.keys().nobody(), None);
            let txn = Txn::new().and_then([nobody]);
            self.transact(txn, Effect::Reads, Some(lease)).await?;
            if lease.good_until() >= begun + lease.ttl {
                return Ok(());
            }
        }
        Err(Trouble::Failed(Effect::Reads.unanswered(
            "the cluster changes its leader or its members faster than a lease can be kept alive",
        )))
    }

    /// Keeps a lease alive. If it isn't there any more, all that it carried is lost.
    pub(crate) async fn keep_alive(&self, lease: &Arc<Lease>) -> Result<(), Trouble> {
        let keeping = |link: Arc<Link>| async move { lease.keep_alive(&link, &self.clock).await };
        match self.members.ask(Effect::Reads, self.members.limit(lease.ttl), keeping).await {
            Ok(_) => Ok(()),
            Err(Trouble::NoLease) => {
                if self.bears_a_key(lease).await? {
                    return Err(Trouble::Failed(
                        Effect::Reads.unanswered("the leader doesn't know the lease yet"),
                    ));
                }
                self.lose(lease);
                Err(Trouble::NoLease)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Whether the cluster has a key on this lease, and so the lease. A member that has just become
    /// the leader may not know of it before it has caught up, up to etcd 3.4.
    async fn bears_a_key(&self, lease: &Lease) -> Result<bool, Trouble> {
        let on_it = self.roster.all(|_, place| place.lease.id == lease.id);
        let Some((_, _, place)) = on_it.into_iter().find(|(_, _, place)| place.created.is_some())
        else {
            return Ok(false);
        };
        let txn = Txn::new().and_then([TxnOp::get(place.key, None)]);
        let answered = self.transact(txn, Effect::Reads, None).await?;
        let found = answered.found.first().and_then(Found::first);
        Ok(found.is_some_and(|entry| entry.lease == lease.id))
    }

    /// A lease has gone, and all that it carried.
    pub(crate) fn lose(&self, lease: &Lease) {
        lease.set_gone();
        self.leases.remove(lease);
        let is_lost = |place: &Place| place.lease.id == lease.id && place.is_held && !place.is_over;
        let lost = self.roster.all(|_, place| is_lost(place));
        self.roster.leave_all(|place| place.lease.id == lease.id);
        for (_, token, place) in lost {
            // Unless the watch was faster.
            if self.watching.forget(&place.key).is_some() {
                self.watching.audience.send(&Event::Lost(token, Reason::SessionEnded));
            }
        }
    }

    /// Strikes a claim off.
    pub(crate) fn forget(&self, claim: &Claim) {
        if let Some(place) = self.roster.leave(claim) {
            self.vacate(&claim.name, claim.token, &place);
        }
    }

    /// What stood there is off the server.
    pub(crate) fn vacate(&self, name: &LockName, token: Token, place: &Place) {
        self.watching.forget(&place.key);
        place.lease.drop_claim(name, token, self.clock.now());
        if place.lease.is_fixed {
            keeping::revoke_soon(self, &place.lease);
        }
    }

    /// How long a lease is kept by the server if nobody keeps it alive, and for how long it was asked
    /// for. `None` if it isn't there. The first is told in whole seconds, and is a little more.
    pub(crate) async fn time_to_live(&self, lease: i64) -> Result<Option<(Duration, Duration)>> {
        if lease == 0 {
            return Ok(Some((Duration::MAX, Duration::MAX)));
        }
        let asking = |link: Arc<Link>| async move {
            link.client.lease_client().time_to_live(lease, None).await
        };
        let limit = self.members.limit(Duration::MAX);
        match self.members.ask(Effect::Reads, limit, asking).await {
            Ok(Answer { value, .. }) if value.ttl() >= 0 => {
                let granted = Duration::from_secs(value.granted_ttl().unsigned_abs());
                let left = Duration::from_secs(value.ttl().unsigned_abs() + 1);
                Ok(Some((left.min(granted), granted)))
            }
            Ok(_) | Err(Trouble::NoLease) => Ok(None),
            Err(Trouble::Failed(failure)) => Err(failure),
        }
    }

    /// Has a claim keep its place until then at least. False if it has none, or is being removed.
    pub(crate) fn keep(&self, claim: &Claim, ends: BootInstant) -> bool {
        self.roster.extend_if(claim, ends, |place| !place.is_over)
    }

    /// Has a claim that stands there hold, and keep its place until then at least. False if it has none,
    /// or is being removed.
    pub(crate) fn hold(self: &Arc<Self>, claim: &Claim, place: Place, ends: BootInstant) -> bool {
        if !self.keep(claim, ends) {
            return false;
        }
        let (key, created) = (place.key.clone(), place.created.unwrap_or_default());
        self.roster.enter(claim, Place { is_held: true, ..place }, ends);
        self.watching.holds(&key, claim.token, created);
        watching::start(self);
        true
    }

    /// Until when a claim that nobody repeats keeps its place in a queue.
    pub(crate) fn queued_until(&self, claim: &Claim) -> BootInstant {
        self.clock.now() + claim.ttl.max(crate::SLOW_POLL * 10)
    }
}

/// The first key of those that were created up to `revision`.
pub(crate) fn first(revision: i64) -> GetOptions {
    sorted(SortOrder::Ascend, revision)
}

/// The last key of those that were created up to `revision`, without its value.
pub(crate) fn last(revision: i64) -> GetOptions {
    sorted(SortOrder::Descend, revision).with_keys_only()
}

fn sorted(order: SortOrder, revision: i64) -> GetOptions {
    let all = GetOptions::new().with_prefix().with_sort(SortTarget::Create, order).with_limit(1);
    if revision == i64::MAX { all } else { all.with_max_create_revision(revision) }
}

fn read(response: &TxnResponse, was_unsure: bool) -> Option<Answered> {
    let mut found = Vec::new();
    for operation in response.op_responses() {
        if let TxnOpResponse::Get(mut got) = operation {
            found.push(Found { keys: got.take_kvs(), count: got.count(), more: got.more() });
        }
    }
    let revision = response.header()?.revision();
    Some(Answered { succeeded: response.succeeded(), revision, found, was_unsure })
}
