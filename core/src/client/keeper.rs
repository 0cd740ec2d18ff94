//! The keeper: one task per client that renews holds in batches, tells losses on time, and starts
//! background releases. Everything that talks to the server runs in tasks of its own, so that a
//! silent server can't keep a loss from being told.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use crate::claim::{Renew, Renewal, RenewalOutcome};
use crate::clock::BootInstant;
use crate::error::Result;
use crate::token::Token;

use super::answer::{answer, say};
use super::background::Job;
use super::hold::Hold;
use super::shared::{Fact, Shared};

/// How long an answer to a renewal is waited for at least, however little is left.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);

/// How long a failed renewal waits for its next try: a twentieth of the TTL and no more than a quarter of
/// what is left, within these.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// How long the keeper pauses after a panic, which may repeat.
const AFTER_PANIC: Duration = Duration::from_millis(20);

/// Marks the end of the keeper, however it comes: also when its runtime goes down.
struct Going(Weak<Shared>);

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.keeper_has_gone();
        }
    }
}

/// The keeper's task. It doesn't keep the client: handles, requests, holds and jobs do, and when
/// the last of them has gone it ends.
pub(crate) fn keeper(shared: &Arc<Shared>) -> impl Future<Output = ()> + Send + 'static {
    let going = Going(Arc::downgrade(shared));
    let (roused, clock) = (Arc::clone(&shared.keeper), shared.clock.clone());
    async move {
        let mut due = Vec::new();
        loop {
            let next = {
                let Some(shared) = going.0.upgrade() else { return };
                // A waker of the application may panic. That must not end the renewals.
                let round = catch_unwind(AssertUnwindSafe(|| round(&shared, &mut due)));
                // The holds of a round that panicked may be scheduled no more.
                round.unwrap_or_else(|_| {
                    let next = shared.clock.now() + AFTER_PANIC;
                    reschedule_all(&shared, next);
                    Some(next)
                })
            };
            match next {
                None => roused.notified().await,
                Some(next) => {
                    tokio::select! {
                        () = roused.notified() => {}
                        () = clock.sleep_until(next) => {}
                    }
                }
            }
        }
    }
}

/// Runs one round, and returns the instant of the next.
fn round(shared: &Arc<Shared>, due: &mut Vec<Arc<Hold>>) -> Option<BootInstant> {
    start_jobs(shared);
    take_facts(shared);
    let now = shared.clock.now();
    shared.table().holds.take_due(now, due);
    attend(shared, now, due);
    shared.table().holds.next_due(now)
}

/// Schedules all holds for `next`, also those whose renewal was sent.
pub(super) fn reschedule_all(shared: &Shared, next: BootInstant) {
    let mut table = shared.table();
    let all = table.holds.find(|_| true);
    for hold in &all {
        hold.renewing.store(false, Ordering::Release);
    }
    table.holds.reschedule(all.iter().map(|hold| (hold, next)));
}

fn start_jobs(shared: &Arc<Shared>) {
    loop {
        let job = shared.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match job {
            Some(job) => drop(tokio::spawn(job.run())),
            None => return,
        }
    }
}

/// Acts on the backend's events, all at once: the end of a session loses many holds. If the keeper has
/// ended, the thread that reports an event calls this.
pub(crate) fn take_facts(shared: &Shared) {
    let told = std::mem::take(&mut *shared.facts.lock().unwrap_or_else(PoisonError::into_inner));
    if told.is_empty() {
        return;
    }
    let mut facts: HashMap<Token, Fact> = HashMap::new();
    for (token, fact) in told {
        // A loss stays one, whatever is told of it after that.
        if !matches!(facts.get(&token), Some(Fact::Lost(_))) {
            facts.insert(token, fact);
        }
    }
    let now = shared.clock.now();
    let holds = shared.table().holds.find(|hold| facts.contains_key(&hold.claim.token));
    for hold in &holds {
        // A waker of the application may panic. That must not delay the report of the other facts.
        let report = || match facts[&hold.claim.token] {
            Fact::AtRisk => {
                hold.renew_again_at(now);
                hold.put_at_risk();
            }
            Fact::Lost(reason) => {
                hold.lose(reason);
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(report));
    }
    shared.table().holds.reschedule(holds.iter().map(|hold| (hold, now)));
}

/// Does what is due for each hold.
fn attend(shared: &Arc<Shared>, now: BootInstant, due: &mut Vec<Arc<Hold>>) {
    let mut renew = Vec::new();
    let mut look_again = Vec::with_capacity(due.len());
    for hold in due.drain(..) {
        let due = hold.due(now);
        if due.over {
            // Its user has had the time to stop, so whatever may stand on the server can go, and
            // the others of this client can have their turn.
            shared.table().holds.remove(&hold);
            Shared::in_background(Job::release(hold));
            continue;
        }
        if due.renew {
            renew.push((patience(&hold, now), Arc::clone(&hold)));
        }
        look_again.push((hold, due.next));
    }
    shared.table().holds.reschedule(look_again.iter().map(|(hold, next)| (hold, *next)));
    // Those in a batch share its patience, which the least patient of them sets: so nobody is in one with
    // a hold that has far less time left.
    renew.sort_by_key(|(patience, _)| *patience);
    let size = shared.backend.profile().renew_batch.max(1);
    let mut renew = renew.as_slice();
    while let Some((least, _)) = renew.first() {
        let alike = renew.partition_point(|(patience, _)| *patience <= *least * 3 / 2);
        let (batch, rest) = renew.split_at(alike.min(size));
        let batch = batch.iter().map(|(_, hold)| Arc::clone(hold)).collect();
        tokio::spawn(renew_batch(Arc::clone(shared), batch));
        renew = rest;
    }
}

/// Renews a batch and notes what came of it.
async fn renew_batch(shared: Arc<Shared>, batch: Vec<Arc<Hold>>) {
    let start = shared.clock.now();
    let answers = ask_renewal(&shared, &batch).await.unwrap_or_else(|error| {
        say(|| tracing::debug!(%error, holds = batch.len(), "a renewal failed"));
        Vec::new()
    });
    let mut answers = answers.into_iter();
    let now = shared.clock.now();
    let look_again: Vec<BootInstant> = batch
        .iter()
        .map(|hold| {
            // A waker of the application may panic. That must not end the other renewals.
            let answer = answers.next();
            catch_unwind(AssertUnwindSafe(|| note_renewal(hold, answer, start, now))).unwrap_or(now)
        })
        .collect();
    if shared.table().holds.reschedule(batch.iter().zip(look_again)) {
        shared.keeper.notify_one();
    }
}

/// How long an answer to a renewal is waited for: half of what is left is for trying again, also where a
/// hold has a short term of a long TTL.
fn patience(hold: &Hold, now: BootInstant) -> Duration {
    (hold.lost_at().saturating_since(now) / 2).max(LEAST_PATIENCE).min(hold.claim.ttl / 4)
}

/// Sends one renewal of some holds and waits for the answer, but not for ever.
pub(crate) async fn ask_renewal(shared: &Shared, holds: &[Arc<Hold>]) -> Result<Vec<Renewal>> {
    let now = shared.clock.now();
    let patience = holds.iter().map(|hold| patience(hold, now)).min().unwrap_or_default();
    let renews: Vec<Renew<'_>> =
        holds.iter().map(|hold| Renew { patience, ..Renew::of(&hold.claim) }).collect();
    let send = || shared.backend.renew(&renews);
    answer(&shared.clock, send, now + patience, "the renewal").await
}

/// Notes the answer for one hold; says when to look at it again.
pub(crate) fn note_renewal(
    hold: &Arc<Hold>,
    answer: Option<Renewal>,
    start: BootInstant,
    now: BootInstant,
) -> BootInstant {
    let shared = &hold.shared;
    hold.renewing.store(false, Ordering::Release);
    match answer.map(|renewal| renewal.outcome) {
        Some(RenewalOutcome::Renewed { valid }) => {
            shared.metrics.renewals.add(1);
            hold.confirm(shared.term(start, hold.claim.ttl, valid), now);
            hold.first_due()
        }
        Some(RenewalOutcome::NotHeld(reason)) => {
            hold.lose(reason);
            now
        }
        Some(RenewalOutcome::Indeterminate) | None => {
            shared.metrics.renewals_failed.add(1);
            hold.note_failed_renewal();
            let left = hold.lost_at().saturating_since(now);
            let pause = (hold.claim.ttl / 20).min(left / 4).clamp(TRY_AGAIN.0, TRY_AGAIN.1);
            hold.renew_again_at(now + pause);
            // Looked at now, so that a risk or a loss in between isn't passed over.
            now
        }
    }
}
