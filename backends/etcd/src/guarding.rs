//! Removing what stands on a lease of ours and nobody here knows of.
//!
//! All that this backend puts is noted before it is sent, and taken off the roster when it is off the
//! server. So there is nothing else, unless a snapshot is restored: that brings back what was ended
//! since, and as the lease lives on for the sake of others, it would stand for as long as they do.
//!
//! What is removed was unknown at two looks, and what is being removed is on the roster: whoever asks
//! for it again meanwhile is told so, instead of being granted what is about to go.

use std::collections::HashSet;
use std::sync::Arc;

use etcd_client::{LeaseTimeToLiveOptions, Txn, TxnOp};
use lockwright_core::{LockName, Result};

use crate::SLOW_POLL;
use crate::errors::Effect;
use crate::leases::Lease;
use crate::members::{Link, Trouble};
use crate::shared::{Found, Place, Shared};
use crate::value::Entry;
use crate::{keeping, keys};

/// How many unknown keys are looked at each time.
const AT_ONCE: usize = 100;

/// How many times as long as any request takes it is at least between two looks.
const REQUESTS: u32 = 3;

/// Looks again and again for what nobody knows of, and removes it.
pub(crate) async fn guard(shared: Arc<Shared>, lease: Arc<Lease>) {
    let pause = shared.members.config().response_timeout.saturating_mul(REQUESTS).max(lease.ttl);
    let mut before: HashSet<(Vec<u8>, i64)> = HashSet::new();
    loop {
        shared.clock.sleep(pause).await;
        let unknown = loop {
            match unknown(&shared, &lease).await {
                Ok(unknown) => break unknown,
                Err(failure) => {
                    tracing::debug!(%failure, "etcd: what is on a lease can't be seen, trying on");
                    shared.clock.sleep(SLOW_POLL).await;
                }
            }
        };
        let (again, new): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|(_, entry)| before.contains(&same(entry)));
        before = new.iter().map(|(_, entry)| same(entry)).collect();
        for (name, entry) in again {
            remove(&shared, &lease, name, &entry).await;
        }
    }
}

fn same(entry: &Entry) -> (Vec<u8>, i64) {
    (entry.key.clone(), entry.created)
}

/// The keys of claims that stand on the lease, and that nobody knows of.
async fn unknown(shared: &Shared, lease: &Lease) -> Result<Vec<(LockName, Entry)>> {
    let asking = |link: Arc<Link>| async move {
        let options = LeaseTimeToLiveOptions::new().with_keys();
        link.client.lease_client().time_to_live(lease.id, Some(options)).await
    };
    let limit = shared.members.limit(lease.ttl);
    let told = shared.members.ask(Effect::Reads, limit, asking).await.map_err(Trouble::error)?;
    // Afterwards, so that it has all that was sent before.
    let on_lease = shared.roster.all(|_, place| place.lease.id == lease.id);
    let known: HashSet<Vec<u8>> = on_lease.into_iter().map(|(.., place)| place.key).collect();
    let mut unknown = Vec::new();
    for key in told.value.keys().iter().filter(|key| !known.contains(*key)).take(AT_ONCE) {
        // Not a tombstone, and not what somebody else put there.
        let Some(name) = shared.keys().name(key) else { continue };
        if !shared.keys().is_own(&name, lease.id, key) {
            continue;
        }
        let txn = Txn::new().and_then([TxnOp::get(key.clone(), None)]);
        let answered = shared.transact(txn, Effect::Reads, None).await.map_err(Trouble::error)?;
        let found = answered.found.first().and_then(Found::first);
        let is_ours = |entry: &Entry| entry.lease == lease.id && entry.token().is_some();
        unknown.extend(found.filter(is_ours).map(|entry| (name, entry)));
    }
    Ok(unknown)
}

/// Removes a key as that of a claim that nobody renewed in time, if still nobody knows of it.
async fn remove(shared: &Arc<Shared>, lease: &Arc<Lease>, name: LockName, entry: &Entry) {
    let Some(token) = entry.token() else { return };
    // From here on nobody else gets this key: it is made of the name, the lease, and maybe the token.
    if !lease.carry_unknown(&name, token, keys::mode(&entry.key)) {
        return;
    }
    let place = Place {
        lease: Arc::clone(lease),
        key: entry.key.clone(),
        created: Some(entry.created),
        is_unsure: false,
        is_held: false,
        is_over: true,
    };
    let is_known = shared.roster.any(|_, _, place| place.key == entry.key);
    if is_known || !shared.roster.enter_overdue(&name, token, place.clone()) {
        lease.drop_claim(&name, token, shared.clock.now());
        return;
    }
    tracing::warn!(
        %name,
        "etcd: a claim that was ended stands again, as when a snapshot is restored; removing it"
    );
    keeping::end(shared, name.clone(), token, place).await;
    // If somebody asked by this very token meanwhile, that has a place of its own.
    lease.drop_claim(&name, token, shared.clock.now());
}
