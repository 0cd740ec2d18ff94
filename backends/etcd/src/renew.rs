//! A renewal is a keep-alive, and a read of the holds' keys that proves it (see `KeptAlive`).

use std::collections::HashMap;
use std::sync::Arc;

use etcd_client::TxnOp;
use lockwright_core::{Claim, Reason, Renew, Renewal, RenewalOutcome, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::errors::{Effect, is_lease_not_found};
use crate::leases::Lease;
use crate::shared::{Found, OPERATIONS_AT_ONCE, Place, Shared};
use crate::value::Entry;
use crate::{acquire, release, runtime};

const PROOFS: usize = 2;

const LEASES_AT_ONCE: usize = 32;

struct Numbered {
    at: usize,
    claim: Claim,
    place: Place,
}

pub(crate) async fn renew(shared: &Arc<Shared>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
    let all_unknown = |outcomes: &[Renewal]| {
        outcomes.iter().all(|renewal| renewal.outcome == RenewalOutcome::Indeterminate)
    };
    let mut outcomes = vec![Renewal::INDETERMINATE; holds.len()];
    let mut by_lease: HashMap<i64, (Arc<Lease>, Vec<Numbered>)> = HashMap::new();
    let begun = Instant::now();
    let give_up = begun + shared.members.config.response_timeout;
    let answer_by = begun + Renew::time_to_answer(holds);
    let mut failure = None;
    for (at, Renew { claim, .. }) in holds.iter().enumerate() {
        if Instant::now() >= give_up {
            break;
        }
        match place(shared, claim).await {
            Ok(Ok(place)) => {
                let (_, numbered) = by_lease
                    .entry(place.lease.id)
                    .or_insert_with(|| (Arc::clone(&place.lease), Vec::new()));
                numbered.push(Numbered { at, claim: (*claim).clone(), place });
            }
            Ok(Err(reason)) => outcomes[at] = Renewal::not_held(reason),
            Err(error) => failure = Some(error),
        }
    }
    let mut leases = by_lease.into_values();
    let mut renewing = JoinSet::new();
    loop {
        while renewing.len() < LEASES_AT_ONCE
            && let Some((lease, places)) = leases.next()
        {
            let shared = Arc::clone(shared);
            let runtime = shared.members.runtime().clone();
            let renewing_one = async move { renew_lease(&shared, &lease, &places).await };
            renewing.spawn_on(renewing_one, &runtime);
        }
        let until = if all_unknown(&outcomes) { give_up } else { give_up.min(answer_by) };
        let Ok(Some(known)) = timeout_at(until, renewing.join_next()).await else { break };
        match known {
            Ok(Ok(renewals)) => {
                for (at, renewal) in renewals {
                    outcomes[at] = renewal;
                }
            }
            Ok(Err(error)) => failure = Some(error),
            Err(cause) if cause.is_panic() => std::panic::resume_unwind(cause.into_panic()),
            Err(_) => failure = Some(runtime::gone()),
        }
    }
    match failure {
        Some(failure) if all_unknown(&outcomes) => Err(failure),
        _ => Ok(outcomes),
    }
}

/// Returns the claim's lease and key, or why the claim isn't held. Moves a key on another client's
/// lease to this client's.
async fn place(shared: &Arc<Shared>, claim: &Claim) -> Result<Result<Place, Reason>> {
    let known = match shared.registry.place(claim) {
        Some(place) if place.is_overdue => return Ok(Err(Reason::Expired)),
        Some(place) if place.is_held => return Ok(Ok(place)),
        known => known,
    };
    if let Some(reason) = shared.ended_claims.reason(claim) {
        return Ok(Err(reason));
    }
    let holders = shared.queue(&claim.name, None).await?.holders;
    let Some(entry) = holders.into_iter().find(|entry| entry.token() == Some(claim.token)) else {
        return Ok(Err(shared.loss_reason(claim.token).await?));
    };
    if entry.broken().is_some() {
        return Ok(Err(Reason::Broken));
    }
    if let Some(place) = known {
        return Ok(Ok(place));
    }
    acquire::take_over(shared, claim, &entry).await?;
    Ok(shared.registry.place(claim).ok_or(Reason::Gone))
}

/// Returns the holds' renewals, or none if no response proved them.
async fn renew_lease(
    shared: &Arc<Shared>,
    lease: &Arc<Lease>,
    holds: &[Numbered],
) -> Result<Vec<(usize, Renewal)>> {
    let begun = shared.clock.now();
    for _ in 0..PROOFS {
        match shared.keep_alive(lease).await {
            Ok(()) => {}
            Err(failure) if is_lease_not_found(&failure) => {
                let expired = |hold: &Numbered| (hold.at, Renewal::not_held(Reason::Expired));
                return Ok(holds.iter().map(expired).collect());
            }
            Err(failure) => return Err(failure),
        }
        let mut found = Vec::with_capacity(holds.len());
        for some in holds.chunks(OPERATIONS_AT_ONCE) {
            let gets = some.iter().map(|one| TxnOp::get(one.place.key.clone(), None));
            let looked = shared.get(gets.collect::<Vec<_>>(), Some(lease)).await;
            found.extend(looked?.iter().map(Found::first));
        }
        if lease.valid_until() < begun + lease.ttl {
            continue;
        }
        let left = lease.valid_until().saturating_since(begun);
        let mut renewals = Vec::with_capacity(holds.len());
        for (hold, entry) in holds.iter().zip(found) {
            let renewal = match renewal_of(shared, lease, hold, entry).await {
                Ok(Ok(())) => {
                    let valid = (left < hold.claim.ttl).then_some(left);
                    Renewal { outcome: RenewalOutcome::Renewed { valid }, waiters: false }
                }
                Ok(Err(reason)) => Renewal::not_held(reason),
                Err(_) => Renewal::INDETERMINATE,
            };
            renewals.push((hold.at, renewal));
        }
        return Ok(renewals);
    }
    Ok(Vec::new())
}

async fn renewal_of(
    shared: &Arc<Shared>,
    lease: &Lease,
    Numbered { claim, place, .. }: &Numbered,
    entry: Option<Entry>,
) -> Result<Result<(), Reason>> {
    let ours =
        entry.filter(|entry| entry.token() == Some(claim.token) && entry.created == place.created);
    let Some(entry) = ours else {
        let reason = shared.loss_reason(claim.token).await?;
        if reason == Reason::Broken {
            lease.count_tombstone(shared.clock.now());
        }
        if place.is_unsure && reason != Reason::Broken {
            release::put_tombstone(shared, claim, place).await?;
        }
        shared.forget(claim);
        return Ok(Err(reason));
    };
    if entry.broken().is_some() {
        return Ok(Err(Reason::Broken));
    }
    if entry.lease != lease.id {
        acquire::take_over(shared, claim, &entry).await?;
        return Err(Effect::Reads.unanswered("the hold was moved to another lease"));
    }
    let ends = shared.clock.now() + claim.ttl;
    let is_registered = match place.is_held {
        true => shared.keep(claim, ends),
        false => shared.hold(claim, place.clone(), ends),
    };
    // An unregistered claim became overdue during the renewal.
    Ok(is_registered.then_some(()).ok_or(Reason::Expired))
}
