//! Ending holds and claims: those that are released, those of which nobody knows what became, and
//! those that nobody renews.
//!
//! A request that may arrive late is kept out by a tombstone, a key of the token's on the lease that
//! the request wants to use: it finds either the tombstone or no lease.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use lockwright_core::{Claim, Ended, ErrorKind, LockName, Reason, Result, Settle, Token};

use crate::errors::{Effect, error, is_for_space};
use crate::members::Trouble;
use crate::shared::{Found, Place, Shared};
use crate::value::{Entry, Epitaph};

/// How often a key is looked up anew that changes while it is to be deleted.
const TRIES: usize = 5;

/// Ends a claim, wherever it stands.
pub(crate) async fn release(shared: &Arc<Shared>, claim: &Claim, settle: Settle) -> Result<Ended> {
    let place = shared.roster.place(claim);
    let is_unsure =
        settle == Settle::Unanswered || place.as_ref().is_some_and(|place| place.is_unsure);
    if is_unsure {
        // What arrives from now on is late.
        shared.over.set(claim, Reason::Gone);
    }
    let Some(place) = place else {
        return by_token(shared, &claim.name, claim.token).await;
    };
    shared.watching.forget(&place.key);
    let ended = if place.lease.is_gone() {
        by_token(shared, &claim.name, claim.token).await?
    } else if is_unsure {
        bury(shared, claim, &place).await?
    } else {
        match place.created {
            Some(created) => {
                let ended = delete(shared, &place.key, created).await?;
                if ended == Ended::NotHeld {
                    // Whoever deleted it may have left a tombstone.
                    place.lease.bears_tombstone(shared.clock.now());
                }
                ended
            }
            // It was refused, and for certain.
            None => Ended::NotHeld,
        }
    };
    shared.forget(claim);
    Ok(ended)
}

/// Ends a place whose claim nobody renews. Where its lease has gone, nothing else is touched: whoever has
/// the claim may ask for it anew, and be granted it on another.
pub(crate) async fn end_overdue(shared: &Arc<Shared>, token: Token, place: &Place) -> Result<()> {
    shared.watching.forget(&place.key);
    match place.created {
        Some(created) if !place.is_unsure => {
            // Another backend may have taken the same hold over, to a lease of its own.
            let is_there = [
                Compare::create_revision(place.key.clone(), CompareOp::Equal, created),
                Compare::lease(place.key.clone(), CompareOp::Equal, place.lease.id),
            ];
            let deleting = TxnOp::delete(place.key.clone(), None);
            let txn = Txn::new().when(is_there).and_then([deleting]);
            shared.transact(txn, Effect::Changes, None).await.map_err(Trouble::error)?;
        }
        _ => match bury_on_its_lease(shared, token, place).await {
            // What stood on it went with it.
            Err(Trouble::NoLease) => {}
            buried => drop(buried.map_err(Trouble::error)?),
        },
    }
    Ok(())
}

/// Deletes a key, if it is the one that was created then.
pub(crate) async fn delete(shared: &Shared, key: &[u8], created: i64) -> Result<Ended> {
    let is_there = Compare::create_revision(key, CompareOp::Equal, created);
    let txn = Txn::new().when([is_there]).and_then([TxnOp::delete(key, None)]);
    let answered = shared.transact(txn, Effect::Changes, None).await.map_err(Trouble::error)?;
    // A first request may have done it.
    let is_done = answered.succeeded || answered.was_unsure;
    Ok(if is_done { Ended::Released } else { Ended::NotHeld })
}

/// Deletes whatever there is of a token.
async fn by_token(shared: &Shared, name: &LockName, token: Token) -> Result<Ended> {
    match shared.locate(name, token).await? {
        Some(entry) => delete(shared, &entry.key, entry.created).await,
        None => Ok(Ended::NotHeld),
    }
}

/// Deletes the key of a claim, and puts its token's tombstone in the same step.
pub(crate) async fn bury(shared: &Shared, claim: &Claim, place: &Place) -> Result<Ended> {
    match bury_on_its_lease(shared, claim.token, place).await {
        // All on it went with it, and nothing can come any more. But its key may have been moved to
        // another one, as that of a broken hold is.
        Err(Trouble::NoLease) => by_token(shared, &claim.name, claim.token).await,
        buried => buried.map_err(Trouble::error),
    }
}

/// The same if its lease is there to carry the tombstone.
async fn bury_on_its_lease(shared: &Shared, token: Token, place: &Place) -> Result<Ended, Trouble> {
    // It takes no new claims for long, so that it goes with its tombstones one day.
    place.lease.bears_tombstone(shared.clock.now());
    let mut created = place.created;
    for _ in 0..TRIES {
        let key = place.key.as_slice();
        let is_there = Compare::create_revision(key, CompareOp::Equal, created.unwrap_or(0));
        let on_lease = PutOptions::new().with_lease(place.lease.id);
        let tombstone = || {
            let epitaph = Epitaph::default().bytes();
            TxnOp::put(shared.keys().tombstone(token), epitaph, Some(on_lease.clone()))
        };
        let deleting = match created {
            Some(_) => vec![TxnOp::delete(key, None), tombstone()],
            None => vec![tombstone()],
        };
        let txn = Txn::new()
            .when([is_there])
            .and_then(deleting)
            .or_else([TxnOp::get(key, None), tombstone()]);
        let answered = match shared.transact(txn, Effect::Changes, None).await {
            Ok(answered) => answered,
            Err(trouble) => {
                if matches!(&trouble, Trouble::Failed(failure) if is_for_space(failure)) {
                    // None for a tombstone, which is put later.
                    by_key(shared, token, key).await.map_err(Trouble::Failed)?;
                }
                return Err(trouble);
            }
        };
        if answered.succeeded {
            let was_there = created.is_some() || answered.was_unsure;
            return Ok(if was_there { Ended::Released } else { Ended::NotHeld });
        }
        let found = answered.found.first().and_then(Found::first);
        match found.filter(|entry| entry.token() == Some(token)) {
            Some(Entry { created: later, .. }) => created = Some(later),
            None => return Ok(Ended::NotHeld),
        }
    }
    Err(Trouble::Failed(error(
        ErrorKind::Indeterminate,
        "the key of the claim changes faster than it can be deleted; try again",
    )))
}

/// Deletes a key if it is the token's.
async fn by_key(shared: &Shared, token: Token, key: &[u8]) -> Result<()> {
    let txn = Txn::new().and_then([TxnOp::get(key, None)]);
    let answered = shared.transact(txn, Effect::Reads, None).await.map_err(Trouble::error)?;
    let found = answered.found.first().and_then(Found::first);
    if let Some(entry) = found.filter(|entry| entry.token() == Some(token)) {
        delete(shared, key, entry.created).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockwright_conformance::kit::{self, claim};
    use lockwright_core::{DistributedLock, Renew, RenewalOutcome};
    use lockwright_testbed as testbed;

    use super::*;
    use crate::Etcd;
    use crate::leases::Lease;

    /// Its process was stopped until its lease had gone, with a request unanswered, and then the claim was
    /// asked for anew before it was known to be overdue.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_overdue_on_a_lease_that_has_gone_stands_on_no_other_on_etcd() {
        let server = testbed::Etcd::options().members(1).start().unwrap();
        let etcd = Etcd::connect(&server.url()).await.unwrap();
        let claim = claim("x");
        kit::grant(&etcd, &claim).await;
        let shared = &etcd.shared;
        let held = shared.roster.place(&claim).unwrap();
        let gone = Arc::new(Lease::new(1, Duration::from_secs(30), false, shared.clock.now()));
        for created in [None, held.created] {
            let lease = Arc::clone(&gone);
            let place = Place {
                lease,
                created,
                is_unsure: true,
                is_held: false,
                is_over: true,
                ..held.clone()
            };
            end_overdue(shared, claim.token, &place).await.unwrap();
        }
        let renewed = etcd.renew(&[Renew::of(&claim)]).await.unwrap();
        assert!(matches!(renewed[0].outcome, RenewalOutcome::Renewed { .. }), "{renewed:?}");
    }
}
