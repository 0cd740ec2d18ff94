use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockwright_core::{BootInstant, Claim, Reason, Renew, Renewal, RenewalOutcome, Result};
use tokio::sync::mpsc::{self, UnboundedSender};
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

/// Proves that the holds' sessions live, then reads each node unless its watch shows no change. A
/// silent session delays no other.
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
    let (known, mut renewed) = mpsc::unbounded_channel();
    let mut renewing = JoinSet::new();
    for (session, numbered) in sessions {
        session.touch();
        let (shared, known) = (Arc::clone(shared), known.clone());
        renewing.spawn(async move { renew_in(&shared, &session, numbered, begun, &known).await });
    }
    drop(known);
    while let Ok(Some((at, renewal))) = timeout_at(answer_by, renewed.recv()).await {
        renewals[at] = renewal;
    }
    Ok(renewals)
}

async fn renew_in(
    shared: &Shared,
    session: &Arc<Session>,
    numbered: Vec<Numbered>,
    begun: BootInstant,
    known: &UnboundedSender<(usize, Renewal)>,
) {
    let is_proven = async {
        session.prove().await?;
        session.trusted().await
    };
    if let Err(cause) = is_proven.await {
        tracing::debug!(%cause, "renewing holds failed");
        return;
    }
    let reconnect_count = session.reconnect_count.load(Ordering::Relaxed);
    let mut reads = Vec::new();
    for Numbered { at, claim, node } in numbered {
        let Some(node) = node else { continue };
        if node.watch.is_unchanged(reconnect_count) {
            let _ = known.send((at, extend(shared, &claim, session, begun)));
        } else {
            let bytes = shared.full_length(&node.path);
            let watches = node.watch.reserve(&session.watch_bytes_left, bytes);
            reads.push((at, claim, node.watch, read(session, &node.path, watches)));
        }
    }
    for (at, claim, watch, read) in reads {
        let (found, watcher) = match session.answer(read).await {
            Ok((data, stat, watcher)) => (Ok((data, stat)), watcher),
            Err(failure) => (Err(failure), None),
        };
        let renewal = renewal(shared, &claim, session, found, begun).await;
        // A broken hold stays unwatched, so that each renewal reads its node.
        if let (RenewalOutcome::Renewed { .. }, Some(watcher)) = (&renewal.outcome, watcher) {
            watch.replace(reconnect_count, watcher);
        }
        let _ = known.send((at, renewal));
    }
}

type Read = Result<(Vec<u8>, zk::Stat, Option<zk::OneshotWatcher>), zk::Error>;

/// Sends the request at once, not at the first poll, to have several requests in flight.
fn read<'s>(
    session: &'s Session,
    path: &str,
    watches: bool,
) -> Pin<Box<dyn Future<Output = Read> + Send + 's>> {
    if watches {
        let read = session.client.get_and_watch_data(path);
        return Box::pin(async move {
            let (data, stat, watcher) = read.await?;
            Ok((data, stat, Some(watcher)))
        });
    }
    let read = session.client.get_data(path);
    Box::pin(async move {
        let (data, stat) = read.await?;
        Ok((data, stat, None))
    })
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
            return Renewal::not_held(reason.unwrap_or(Reason::Gone));
        }
        Err(_) => return Renewal::INDETERMINATE,
    };
    if stat.ephemeral_owner != session.id() {
        return Renewal::not_held(Reason::Gone);
    }
    extend(shared, claim, session, begun)
}

fn extend(shared: &Shared, claim: &Claim, session: &Session, begun: BootInstant) -> Renewal {
    if !shared.keep(claim, shared.end_of_hold(claim)) {
        return Renewal::not_held(Reason::Expired);
    }
    let valid = session.valid_from(begun);
    Renewal { outcome: RenewalOutcome::Renewed { valid: Some(valid) }, waiters: false }
}
