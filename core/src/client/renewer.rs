//! The renewal task, one per client. It sends requests in other tasks, so that a silent server
//! can't delay the report of a loss.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::backend_util::lock;
use crate::{BootInstant, Error, Reason, Renew, Renewal, RenewalOutcome, Result};

use super::{Hold, Job, Shared, answer, ignore_panic};

const LEAST_PATIENCE: Duration = Duration::from_millis(200);

/// The shortest and the longest pause after a failed renewal.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

const AFTER_PANIC: Duration = Duration::from_millis(20);

struct EndOfRenewer(Weak<Shared>);

impl Drop for EndOfRenewer {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.renewer_has_ended();
        }
    }
}

/// Returns the renewal task. It runs until no [`Locks`](crate::Locks), request, hold or job is
/// left.
pub(crate) fn renewer(shared: &Arc<Shared>) -> impl Future<Output = ()> + Send + 'static {
    let going = EndOfRenewer(Arc::downgrade(shared));
    let (roused, clock) = (Arc::clone(&shared.renewer), shared.clock.clone());
    async move {
        let mut due = Vec::new();
        loop {
            let next = {
                let Some(shared) = going.0.upgrade() else { return };
                // A round calls wakers of the application, which may panic.
                let round = catch_unwind(AssertUnwindSafe(|| round(&shared, &mut due)));
                // The panic may have left some holds unscheduled.
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

fn round(shared: &Arc<Shared>, due: &mut Vec<Arc<Hold>>) -> Option<BootInstant> {
    start_jobs(shared);
    shared.take_hold_events();
    let now = shared.clock.now();
    shared.table().holds.take_due(now, due);
    attend(shared, now, due);
    shared.table().holds.next_due(now)
}

pub(super) fn reschedule_all(shared: &Shared, next: BootInstant) {
    let mut table = shared.table();
    let all = table.holds.find(|_| true);
    for hold in &all {
        hold.renewing.store(false, Ordering::Release);
    }
    table.holds.reschedule(all.iter().map(|hold| (hold, next)));
}

fn start_jobs(shared: &Arc<Shared>) {
    let next = || lock(&shared.jobs).pop_front();
    while let Some(job) = next() {
        tokio::spawn(job.run());
    }
}

fn attend(shared: &Arc<Shared>, now: BootInstant, due: &mut Vec<Arc<Hold>>) {
    let mut renew = Vec::new();
    let mut look_again = Vec::with_capacity(due.len());
    for hold in due.drain(..) {
        let due = hold.due(now);
        if due.is_warm_over && Shared::end_warm(&hold, now) {
            continue;
        }
        if due.over {
            // After the deadline, the holder has stopped, so the lost hold is released.
            shared.table().holds.remove(&hold);
            Shared::in_background(Job::release(hold, None));
            continue;
        }
        if due.renew {
            renew.push((patience(&hold, now), Arc::clone(&hold)));
        }
        look_again.push((hold, due.next));
    }
    shared.table().holds.reschedule(look_again.iter().map(|(hold, next)| (hold, *next)));
    // The shortest time limit applies to the whole batch, so its holds need similar limits.
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

async fn renew_batch(shared: Arc<Shared>, mut batch: Vec<Arc<Hold>>) {
    batch.retain(|hold| hold.begin_renewal());
    if batch.is_empty() {
        return;
    }
    let start = shared.clock.now();
    let answers = ask_renewal(&shared, &batch).await.unwrap_or_else(|error| {
        ignore_panic(|| tracing::debug!(%error, holds = batch.len(), "a renewal failed"));
        Vec::new()
    });
    let mut answers = answers.into_iter();
    let now = shared.clock.now();
    let look_again: Vec<BootInstant> =
        batch.iter().map(|hold| note_renewal(hold, answers.next(), start, now)).collect();
    if shared.table().holds.reschedule(batch.iter().zip(look_again)) {
        shared.renewer.notify_one();
    }
}

/// Returns a renewal's time limit, which leaves half the remaining time for a retry.
fn patience(hold: &Hold, now: BootInstant) -> Duration {
    (hold.lost_at().saturating_since(now) / 2).max(LEAST_PATIENCE).min(hold.claim.ttl / 4)
}

pub(crate) async fn ask_renewal(shared: &Shared, holds: &[Arc<Hold>]) -> Result<Vec<Renewal>> {
    let now = shared.clock.now();
    let patience = holds.iter().map(|hold| patience(hold, now)).min().unwrap_or_default();
    let renews: Vec<Renew<'_>> =
        holds.iter().map(|hold| Renew { patience, ..Renew::of(&hold.claim) }).collect();
    let send = || shared.backend.renew(&renews);
    answer(shared, send, now + patience, "the renewal").await
}

pub(crate) async fn renew_once(
    shared: &Shared,
    renew: Renew<'_>,
    what: &'static str,
) -> Result<Option<Reason>> {
    let until = shared.clock.now() + renew.patience;
    let holds = [renew];
    let send = || shared.backend.renew(&holds);
    let renewal = answer(shared, send, until, what).await?.pop();
    match renewal.map(|renewal| renewal.outcome) {
        Some(RenewalOutcome::Renewed { .. }) => Ok(None),
        Some(RenewalOutcome::NotHeld(reason)) => Ok(Some(reason)),
        Some(RenewalOutcome::Indeterminate) | None => Err(unclear_renewal()),
    }
}

pub(crate) fn unclear_renewal() -> Error {
    Error::indeterminate(
        "the server's answer doesn't show whether the hold was renewed; repeat the call",
    )
}

pub(crate) fn note_renewal(
    hold: &Arc<Hold>,
    answer: Option<Renewal>,
    start: BootInstant,
    now: BootInstant,
) -> BootInstant {
    let shared = &hold.shared;
    hold.renewing.store(false, Ordering::Release);
    #[cfg(feature = "metrics")]
    super::export::renewed(hold, answer.as_ref());
    if answer.as_ref().is_some_and(|renewal| renewal.waiters) {
        shared.note_busy(&hold.claim.name);
        hold.note_contention();
        Shared::end_warm(hold, now);
    }
    match answer.map(|renewal| renewal.outcome) {
        Some(RenewalOutcome::Renewed { valid }) => {
            shared.metrics.renewals.add(1);
            hold.note_answer();
            hold.confirm(shared.term(start, hold.claim.ttl, valid), now);
            hold.first_due()
        }
        Some(RenewalOutcome::NotHeld(reason)) => {
            hold.note_answer();
            hold.lose(reason);
            now
        }
        Some(RenewalOutcome::Indeterminate) | None => {
            shared.metrics.renewals_failed.add(1);
            hold.note_failed_renewal();
            let left = hold.lost_at().saturating_since(now);
            let pause = (hold.claim.ttl / 20).min(left / 4).clamp(TRY_AGAIN.0, TRY_AGAIN.1);
            hold.renew_again_at(now + pause);
            // The renewal task checks the hold now: a risk or loss may be due before the retry.
            now
        }
    }
}
