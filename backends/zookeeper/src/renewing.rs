//! Renewing several holds.

use std::sync::Arc;

use lockwright_core::{BootInstant, Claim, Reason, Renew, Renewal, RenewalOutcome, Result};
use tokio::task::JoinSet;
use zookeeper_client as zk;

use crate::errors::Failure;
use crate::session::Session;
use crate::shared::{Place, Shared};
use crate::value::Value;

/// Renews them: each session is proven to live, and then each node is looked at.
pub(crate) async fn renew(shared: &Arc<Shared>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
    let begun = shared.clock.now();
    let places: Vec<Result<Place, Reason>> =
        holds.iter().map(|hold| standing(shared, hold.claim)).collect();
    let mut proofs: Vec<(Arc<Session>, bool)> = Vec::new();
    for place in places.iter().flatten() {
        if !proofs.iter().any(|(session, _)| Arc::ptr_eq(session, &place.session)) {
            proofs.push((Arc::clone(&place.session), false));
        }
    }
    // At the same time: one that is silent is no reason for others to wait.
    let mut proving = JoinSet::new();
    for (at, (session, _)) in proofs.iter().enumerate() {
        session.touch();
        let session = Arc::clone(session);
        proving.spawn(async move {
            let is_proven = async {
                session.prove().await?;
                session.trusted().await
            };
            let is_proven = is_proven.await.inspect_err(|cause| {
                tracing::debug!(%cause, "holds could not be renewed");
            });
            (at, is_proven.is_ok())
        });
    }
    for (at, is_proven) in proving.join_all().await {
        proofs[at].1 = is_proven;
    }
    // All nodes are asked for before the first answer is waited for.
    let looks: Vec<_> = places
        .into_iter()
        .map(|place| {
            let place = place.map_err(Renewal::not_held)?;
            let node = place.node.clone().ok_or(Renewal::INDETERMINATE)?;
            let is_proven = proofs
                .iter()
                .any(|(session, is_proven)| *is_proven && Arc::ptr_eq(session, &place.session));
            if !is_proven {
                return Err(Renewal::INDETERMINATE);
            }
            let look = place.session.client().get_data(&node.path);
            Ok((place.session, look))
        })
        .collect();
    let mut renewals = Vec::with_capacity(holds.len());
    for (hold, look) in holds.iter().zip(looks) {
        renewals.push(match look {
            Ok((session, look)) => {
                let found = session.answer(look).await;
                renewal(shared, hold.claim, &session, found, begun)
            }
            Err(renewal) => renewal,
        });
    }
    Ok(renewals)
}

/// The place of a hold, or why there is none.
fn standing(shared: &Shared, claim: &Claim) -> Result<Place, Reason> {
    match shared.roster.place(claim) {
        None => Err(Reason::Gone),
        Some(place) if place.over => Err(Reason::Expired),
        Some(place) if place.session.is_over() => Err(Reason::SessionEnded),
        Some(place) if !place.held => Err(Reason::Gone),
        Some(place) => Ok(place),
    }
}

/// What the node of a hold says.
fn renewal(
    shared: &Shared,
    claim: &Claim,
    session: &Arc<Session>,
    found: Result<(Vec<u8>, zk::Stat), Failure>,
    begun: BootInstant,
) -> Renewal {
    let stat = match found {
        Ok((data, stat)) => {
            if Value::is_broken(&data) {
                // It isn't kept for longer, nor removed before its end.
                return Renewal::not_held(Reason::Broken);
            }
            stat
        }
        Err(failure) if failure.is(&zk::Error::NoNode) => {
            shared.roster.leave(claim);
            return Renewal::not_held(Reason::Gone);
        }
        Err(_) => return Renewal::INDETERMINATE,
    };
    if stat.ephemeral_owner != session.id() {
        return Renewal::not_held(Reason::Gone);
    }
    // Its time may have passed while this was asked: then it is being removed.
    if !shared.keep(claim, shared.end_of_hold(claim)) {
        return Renewal::not_held(Reason::Expired);
    }
    let valid = session.valid_from(begun);
    Renewal { outcome: RenewalOutcome::Renewed { valid: Some(valid) }, waiters: false }
}
