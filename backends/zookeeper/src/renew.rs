use std::sync::Arc;

use lockwright_core::{BootInstant, Claim, Reason, Renew, Renewal, RenewalOutcome, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use zookeeper_client as zk;

use crate::errors::Failure;
use crate::notes;
use crate::session::Session;
use crate::shared::{Node, Place, Shared};
use crate::value::Value;

struct Numbered {
    at: usize,
    claim: Claim,
    node: Option<Node>,
}

/// Proves that the holds' sessions live, and then reads the nodes whose watches don't show that they
/// are unchanged. A silent session doesn't delay others.
pub(crate) async fn renew(shared: &Arc<Shared>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
    let begun = shared.clock.now();
    let answer_by = Instant::now() + Renew::time_to_answer(holds);
    let mut renewals = vec![Renewal::INDETERMINATE; holds.len()];
    let mut sessions: Vec<(Arc<Session>, Vec<Numbered>)> = Vec::new();
    for (at, Renew { claim, .. }) in holds.iter().enumerate() {
        match held_place(shared, claim) {
            Ok(Place { session, node, .. }) => {
                let hold = Numbered { at, claim: (*claim).clone(), node };
                match sessions.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &session)) {
                    Some((_, numbered)) => numbered.push(hold),
                    None => sessions.push((session, vec![hold])),
                }
            }
            Err(reason) => renewals[at] = Renewal::not_held(reason),
        }
    }
    let mut renewing = JoinSet::new();
    for (session, numbered) in sessions {
        session.touch();
        let shared = Arc::clone(shared);
        renewing.spawn(async move { renew_in(&shared, &session, numbered, begun).await });
    }
    while let Ok(Some(known)) = timeout_at(answer_by, renewing.join_next()).await {
        match known {
            Ok(known) => known.into_iter().for_each(|(at, renewal)| renewals[at] = renewal),
            Err(cause) if cause.is_panic() => std::panic::resume_unwind(cause.into_panic()),
            Err(_) => {}
        }
    }
    Ok(renewals)
}

async fn renew_in(
    shared: &Shared,
    session: &Arc<Session>,
    numbered: Vec<Numbered>,
    begun: BootInstant,
) -> Vec<(usize, Renewal)> {
    let is_proven = async {
        session.prove().await?;
        session.trusted().await
    };
    if let Err(cause) = is_proven.await {
        tracing::debug!(%cause, "renewing holds failed");
        return Vec::new();
    }
    let reconnects = session.reconnects();
    let mut known = Vec::with_capacity(numbered.len());
    let mut reads = Vec::new();
    for Numbered { at, claim, node } in numbered {
        let Some(node) = node else { continue };
        if node.watch.is_unchanged(reconnects) {
            known.push((at, extended(shared, &claim, session, begun)));
        } else {
            let read = session.client().get_and_watch_data(&node.path);
            reads.push((at, claim, node.watch, read));
        }
    }
    for (at, claim, watch, read) in reads {
        let found = session.answer(read).await.map(|(data, stat, watcher)| {
            watch.set(reconnects, watcher);
            (data, stat)
        });
        known.push((at, renewal(shared, &claim, session, found, begun).await));
    }
    known
}

fn held_place(shared: &Shared, claim: &Claim) -> Result<Place, Reason> {
    match shared.registry.place(claim) {
        None => Err(Reason::Gone),
        Some(place) if place.is_overdue => Err(Reason::Expired),
        Some(place) if place.session.is_over() => Err(Reason::SessionEnded),
        Some(place) if !place.is_held => Err(Reason::Gone),
        Some(place) => Ok(place),
    }
}

async fn renewal(
    shared: &Shared,
    claim: &Claim,
    session: &Arc<Session>,
    found: Result<(Vec<u8>, zk::Stat), Failure>,
    begun: BootInstant,
) -> Renewal {
    let stat = match found {
        Ok((data, stat)) => {
            if Value::is_broken(&data) {
                // The hold isn't extended, so its node is removed after the TTL.
                return Renewal::not_held(Reason::Broken);
            }
            stat
        }
        Err(failure) if failure.is(&zk::Error::NoNode) => {
            let reason = notes::why_gone(shared, session, &claim.name, claim.token).await;
            shared.registry.leave(claim);
            return Renewal::not_held(reason);
        }
        Err(_) => return Renewal::INDETERMINATE,
    };
    if stat.ephemeral_owner != session.id() {
        return Renewal::not_held(Reason::Gone);
    }
    extended(shared, claim, session, begun)
}

fn extended(shared: &Shared, claim: &Claim, session: &Session, begun: BootInstant) -> Renewal {
    if !shared.keep(claim, shared.end_of_hold(claim)) {
        return Renewal::not_held(Reason::Expired);
    }
    let valid = session.valid_from(begun);
    Renewal { outcome: RenewalOutcome::Renewed { valid: Some(valid) }, waiters: false }
}
