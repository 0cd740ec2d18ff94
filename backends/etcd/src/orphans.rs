//! Removal of orphans: keys on this client's leases that the client hasn't registered. They come
//! only from a restored snapshot, because keys are registered before they are created. An orphan
//! would stay while other claims keep its lease alive.
//!
//! An orphan is removed if two checks in a row find it. During the removal, its claim is
//! registered, so that a repeated acquire is rejected instead of granted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{LeaseTimeToLiveOptions, TxnOp};
use lockwright_core::{LockName, Result};

use crate::errors::Effect;
use crate::leases::Lease;
use crate::members::Link;
use crate::release;
use crate::shared::{OPERATIONS_AT_ONCE, Place, Shared};
use crate::value::Entry;

const REQUESTS: u32 = 3;

const RETRY_PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn remove_orphans(shared: Arc<Shared>, lease: Arc<Lease>) {
    let pause = shared.members.config.response_timeout.saturating_mul(REQUESTS).max(lease.ttl);
    let mut before: HashSet<(Vec<u8>, i64)> = HashSet::new();
    loop {
        shared.clock.sleep(pause).await;
        let orphans = loop {
            match orphans(&shared, &lease).await {
                Ok(orphans) => break orphans,
                Err(failure) => {
                    tracing::debug!(%failure, "etcd: reading the keys of a lease failed, retrying");
                    shared.clock.sleep(RETRY_PAUSE).await;
                }
            }
        };
        let (again, new): (Vec<_>, Vec<_>) =
            orphans.into_iter().partition(|(_, entry)| before.contains(&same(entry)));
        before = new.iter().map(|(_, entry)| same(entry)).collect();
        for (name, entry) in again {
            remove(&shared, &lease, name, &entry).await;
        }
    }
}

fn same(entry: &Entry) -> (Vec<u8>, i64) {
    (entry.key.clone(), entry.created)
}

async fn orphans(shared: &Shared, lease: &Lease) -> Result<Vec<(LockName, Entry)>> {
    let request = |link: Arc<Link>| async move {
        let options = LeaseTimeToLiveOptions::new().with_keys();
        link.client.lease_client().time_to_live(lease.id, Some(options)).await
    };
    let limit = shared.members.limit(lease.ttl);
    let lease_info = shared.members.ask(Effect::Reads, limit, request).await?;
    // Read the registry after the keys: the key of a claim registered between the reads would look
    // like an orphan.
    let on_lease = shared.registry.all(|_, place| place.lease.id == lease.id);
    let registered: HashSet<Vec<u8>> = on_lease.into_iter().map(|(.., place)| place.key).collect();
    let suspects: Vec<(LockName, &Vec<u8>)> = lease_info
        .value
        .keys()
        .iter()
        .filter(|key| !registered.contains(*key))
        .filter_map(|key| Some((shared.keys().name(key)?, key)))
        .filter(|(name, key)| shared.keys().is_own(name, lease.id, key))
        .take(OPERATIONS_AT_ONCE)
        .collect();
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    let gets: Vec<_> = suspects.iter().map(|(_, key)| TxnOp::get(key.as_slice(), None)).collect();
    let found = shared.get(gets, None).await?;
    let is_ours = |entry: &Entry| entry.lease == lease.id && entry.token().is_some();
    let found = found.iter().map(|found| found.first().filter(is_ours));
    let orphans = suspects.into_iter().zip(found);
    Ok(orphans.filter_map(|((name, _), entry)| Some((name, entry?))).collect())
}

async fn remove(shared: &Arc<Shared>, lease: &Arc<Lease>, name: LockName, entry: &Entry) {
    let Some(token) = entry.token() else { return };
    if !lease.add_claim(&name, token, entry.mode(), shared.clock.now()) {
        return;
    }
    let place = Place { is_overdue: true, ..Place::new(lease, &entry.key, entry.created) };
    let is_registered = shared.registry.any(|_, _, place| place.key == entry.key);
    if is_registered || !shared.registry.enter_overdue(&name, token, place.clone()) {
        lease.drop_claim(&name, token, shared.clock.now());
        return;
    }
    tracing::warn!(
        %name,
        "etcd: a released claim exists again, as after a restored snapshot; removing it"
    );
    release::remove_claim(shared, name.clone(), token, place).await;
    // If a new acquire has registered the token on another lease, `remove_claim` has left the claim
    // on this one.
    lease.drop_claim(&name, token, shared.clock.now());
}
