//! Releases. The server rejects a released claim's late requests: its lease has ended, or carries a
//! tombstone of its token.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lockwright_core::{
    Claim, ErrorKind, LockName, Reason, ReleaseMode, ReleaseOutcome, Result, Token,
};

use crate::errors::{Effect, error, is_lease_not_found, is_out_of_space};
use crate::shared::{Found, Place, Shared};
use crate::value::Tombstone;

const TRIES: usize = 5;

pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn release(
    shared: &Arc<Shared>,
    claim: &Claim,
    release_mode: ReleaseMode,
) -> Result<ReleaseOutcome> {
    let place = shared.registry.place(claim);
    let is_unsure = release_mode == ReleaseMode::Reconcile
        || place.as_ref().is_some_and(|place| place.is_unsure);
    if is_unsure {
        shared.ended_claims.set(claim, Reason::Gone);
    }
    let Some(place) = place else {
        return by_token(shared, &claim.name, claim.token).await;
    };
    shared.wakeups.forget(&place.key);
    let ended = if place.lease.is_gone() {
        by_token(shared, &claim.name, claim.token).await?
    } else if is_unsure {
        put_tombstone(shared, claim, &place).await?
    } else if place.created == 0 {
        ReleaseOutcome::NotHeld
    } else {
        let ended = delete(shared, &place.key, place.created).await?;
        if ended == ReleaseOutcome::NotHeld {
            // An operator's break, which may have deleted the key, puts a tombstone on the lease.
            place.lease.count_tombstone(shared.clock.now());
        }
        ended
    };
    shared.forget(claim);
    Ok(ended)
}

/// Removes an overdue claim's key from the lease of `place`. A later acquire's key, on another
/// lease, stays.
async fn end_overdue(shared: &Arc<Shared>, token: Token, place: &Place) -> Result<()> {
    shared.wakeups.forget(&place.key);
    if place.created == 0 || place.is_unsure {
        return match put_tombstone_on_lease(shared, token, place).await {
            Err(failure) if is_lease_not_found(&failure) => Ok(()),
            ended => ended.map(drop),
        };
    }
    // Keep the key if another client has resumed the hold and moved it to its own lease.
    let is_there = [
        Compare::create_revision(place.key.clone(), CompareOp::Equal, place.created),
        Compare::lease(place.key.clone(), CompareOp::Equal, place.lease.id),
    ];
    let txn = Txn::new().when(is_there).and_then([TxnOp::delete(place.key.clone(), None)]);
    shared.transact(txn, Effect::Changes, None).await.map(drop)
}

pub(crate) async fn remove_claim(shared: &Arc<Shared>, name: LockName, token: Token, place: Place) {
    while !place.lease.is_gone() {
        match end_overdue(shared, token, &place).await {
            Ok(()) => break,
            // The user may not delete the key. Without keep-alives, it ends with its lease.
            Err(failure)
                if failure.kind() == ErrorKind::Denied && !shared.has_claims_on(&place.lease) =>
            {
                tracing::warn!(%failure, %name, "etcd: an expired hold ends with its lease");
                shared.lose(&place.lease);
            }
            Err(failure) => {
                tracing::debug!(%failure, "etcd: removing an expired hold failed, retrying");
                shared.clock.sleep(RETRY_PAUSE).await;
            }
        }
    }
    if let Some(place) = shared.registry.leave_if(&name, token, |place| place.is_overdue) {
        shared.vacate(&name, token, &place);
    }
}

pub(crate) async fn delete(shared: &Shared, key: &[u8], created: i64) -> Result<ReleaseOutcome> {
    let is_there = Compare::create_revision(key, CompareOp::Equal, created);
    let txn = Txn::new().when([is_there]).and_then([TxnOp::delete(key, None)]);
    let answered = shared.transact(txn, Effect::Changes, None).await?;
    // An earlier, unanswered copy of the request may have deleted the key.
    let is_done = answered.succeeded || answered.was_unsure;
    Ok(if is_done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
}

async fn by_token(shared: &Shared, name: &LockName, token: Token) -> Result<ReleaseOutcome> {
    match shared.locate(name, token).await? {
        Some(entry) => delete(shared, &entry.key, entry.created).await,
        None => Ok(ReleaseOutcome::NotHeld),
    }
}

pub(crate) async fn put_tombstone(
    shared: &Shared,
    claim: &Claim,
    place: &Place,
) -> Result<ReleaseOutcome> {
    match put_tombstone_on_lease(shared, claim.token, place).await {
        // The lease has ended, but a broken hold's key may be on another lease.
        Err(failure) if is_lease_not_found(&failure) => {
            by_token(shared, &claim.name, claim.token).await
        }
        ended => ended,
    }
}

async fn put_tombstone_on_lease(
    shared: &Shared,
    token: Token,
    place: &Place,
) -> Result<ReleaseOutcome> {
    place.lease.count_tombstone(shared.clock.now());
    let mut created = place.created;
    for _ in 0..TRIES {
        let key = place.key.as_slice();
        let is_there = Compare::create_revision(key, CompareOp::Equal, created);
        let on_lease = PutOptions::new().with_lease(place.lease.id);
        let tombstone = || {
            let tombstone = Tombstone::default().bytes();
            TxnOp::put(shared.keys().tombstone(token), tombstone, Some(on_lease.clone()))
        };
        let deletion = (created > 0).then(|| TxnOp::delete(key, None));
        let deleting: Vec<_> = deletion.into_iter().chain([tombstone()]).collect();
        let txn = Txn::new()
            .when([is_there])
            .and_then(deleting)
            .or_else([TxnOp::get(key, None), tombstone()]);
        let answered = match shared.transact(txn, Effect::Changes, None).await {
            Ok(answered) => answered,
            Err(failure) => {
                if is_out_of_space(&failure) {
                    by_key(shared, token, key).await?;
                }
                return Err(failure);
            }
        };
        let is_done = (answered.succeeded && created > 0) || answered.was_unsure;
        let ended = if is_done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
        if answered.succeeded {
            return Ok(ended);
        }
        let found = answered.found.first().and_then(Found::first);
        match found.filter(|entry| entry.token() == Some(token)) {
            Some(entry) => created = entry.created,
            None => return Ok(ended),
        }
    }
    let message = "the claim's key changed during each attempt to delete it; retry";
    Err(error(ErrorKind::Indeterminate, message))
}

async fn by_key(shared: &Shared, token: Token, key: &[u8]) -> Result<()> {
    let found = shared.get([TxnOp::get(key, None)], None).await?;
    let found = found.first().and_then(Found::first);
    if let Some(entry) = found.filter(|entry| entry.token() == Some(token)) {
        delete(shared, key, entry.created).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockwright_conformance::test_helpers::{self, claim};
    use lockwright_core::{DistributedLock, Renew, RenewalOutcome};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::Etcd;
    use crate::leases::Lease;

    #[tokio::test(flavor = "multi_thread")]
    async fn overdue_claim_of_a_lost_lease_leaves_later_holds_on_etcd() {
        let server = testbed::Etcd::options().members(1).start().unwrap();
        let etcd = Etcd::connect(&server.url()).await.unwrap();
        let claim = claim("x");
        test_helpers::grant(&etcd, &claim).await;
        let shared = &etcd.shared;
        let held = shared.registry.place(&claim).unwrap();
        let gone = Arc::new(Lease::new(1, Duration::from_secs(30), false, shared.clock.now()));
        for created in [0, held.created] {
            let place = Place::new(&gone, &held.key, created);
            let place = Place { is_unsure: true, is_overdue: true, ..place };
            end_overdue(shared, claim.token, &place).await.unwrap();
        }
        let place = Place { is_overdue: true, ..Place::new(&gone, &held.key, held.created) };
        gone.set_gone();
        remove_claim(shared, claim.name.clone(), claim.token, place).await;
        assert!(shared.registry.place(&claim).is_some());
        let renewed = etcd.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");
    }
}
