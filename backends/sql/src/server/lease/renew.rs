use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockwright_core::backend_util::lock;
use lockwright_core::{Error, Mode, Reason, Renew, Renewal, RenewalOutcome, Result};

use super::LeaseBackend;
use crate::server::hold_row::micros_up;
use crate::server::{Dialect, Sending, Sql, Value};

const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// The minimum wait in the server's queue for a locked row. Without a wait, a renewal may never
/// find a contended row free.
const WAITS_FOR_ROW: Duration = Duration::from_millis(500);

const WAIT_AT_ONCE: usize = 3;

const SMALLER_FOR: Duration = Duration::from_secs(60);

type Holds<'a, 'b> = &'a [(usize, &'b Renew<'b>)];

type Renewals = HashMap<usize, Option<Renewal>>;

impl<D: Dialect> LeaseBackend<D> {
    pub(super) async fn renew_all(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let deadline = Instant::now() + Renew::time_to_answer(holds);
        let (alone, shared): (Vec<_>, Vec<_>) =
            holds.iter().enumerate().partition(|(_, hold)| hold.claim.mode == Mode::Exclusive);
        let (alone, shared) = tokio::join!(
            self.renew_with((&self.statements.renew, &self.waiting[0]), alone, deadline),
            self.renew_with((&self.statements.shared_renew, &self.waiting[1]), shared, deadline),
        );
        let mut renewals = vec![Renewal::INDETERMINATE; holds.len()];
        for (place, renewal) in all_known(alone, shared)? {
            renewals[place] = renewal.unwrap_or(Renewal::INDETERMINATE);
        }
        Ok(renewals)
    }

    async fn renew_with(
        &self,
        (statement, waiting): (&Sql, &Sql),
        mut holds: Vec<(usize, &Renew<'_>)>,
        deadline: Instant,
    ) -> Result<Renewals> {
        // Batches lock rows in the same order, so they don't deadlock.
        holds.sort_by(|(_, one), (_, other)| one.claim.name.cmp(&other.claim.name));
        let size = match *lock(&self.batch) {
            Some((size, failed)) if failed.elapsed() < SMALLER_FOR => size,
            _ => holds.len(),
        };
        let mut renewals = self.renew_some(statement, &holds, size, deadline).await?;
        {
            let mut batch = lock(&self.batch);
            *batch = batch.map(|(halved, since)| (grown(halved, size), since));
        }
        keep_locked(&mut holds, &renewals);
        if !holds.is_empty() {
            tokio::time::sleep(LOCKED_PAUSE).await;
            let Ok(answers) = self.renew_some(statement, &holds, size, deadline).await else {
                return Ok(renewals);
            };
            renewals.extend(answers);
            keep_locked(&mut holds, &renewals);
        }
        let mut chunks = holds.chunks(WAIT_AT_ONCE);
        while let Some(chunk) = chunks.next() {
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            let share = left / u32::try_from(chunks.len() + 1).unwrap_or(u32::MAX);
            let until = now + share.max(WAITS_FOR_ROW).min(left);
            let waiting = chunk
                .iter()
                .map(|hold| self.renew_once(waiting, std::slice::from_ref(hold), until, true));
            for answers in join_all(waiting).await.into_iter().flatten() {
                renewals.extend(answers);
            }
        }
        Ok(renewals)
    }

    /// Renews in batches of at most `size`, and halves a failed batch. Fails only if all batches
    /// fail.
    async fn renew_some(
        &self,
        statement: &Sql,
        holds: Holds<'_, '_>,
        size: usize,
        deadline: Instant,
    ) -> Result<Renewals> {
        if holds.is_empty() {
            return Ok(Renewals::new());
        }
        if holds.len() <= size.max(1) {
            let begun = Instant::now();
            let error = match self.renew_once(statement, holds, deadline, false).await {
                Err(error) if holds.len() > 1 => error,
                answer => return answer,
            };
            let smaller = Some((holds.len() / 2, begun));
            *lock(&self.batch) = smaller;
            if deadline.saturating_duration_since(Instant::now()) < begun.elapsed() {
                return Err(error);
            }
        }
        let (some, others) = holds.split_at(holds.len() / 2);
        let size = size.min(others.len());
        let (some, others) = tokio::join!(
            Box::pin(self.renew_some(statement, some, size, deadline)),
            Box::pin(self.renew_some(statement, others, size, deadline)),
        );
        all_known(some, others)
    }

    async fn renew_once(
        &self,
        statement: &Sql,
        holds: Holds<'_, '_>,
        deadline: Instant,
        waits: bool,
    ) -> Result<Renewals> {
        let asked: Vec<_> = holds
            .iter()
            .map(|(_, hold)| {
                (hold.claim.name.as_str(), hold.claim.token.to_string(), micros_up(hold.claim.ttl))
            })
            .collect();
        let asked = serde_json::to_string(&asked).map_err(|cause| {
            Error::invalid_input("the holds can't be written as JSON").with_source(cause)
        })?;
        let sending = self.pool.sending(self.pool.limits().answer);
        let sending = Sending { until: deadline.into(), renews: true, waits, ..sending };
        let rows = self.change_so(statement, &[("holds", Value::Text(&asked))], sending).await?;
        let mut renewals = Renewals::new();
        for row in &rows {
            let read = || Ok((row.int(0)?, row.text(1)?, row.bool(2)?));
            let (at, word, waiters) = self.pool.sound(read())?;
            let outcome = match word {
                Some("skipped") => None,
                Some("renewed") => Some(RenewalOutcome::Renewed { valid: None }),
                Some("broken") => Some(RenewalOutcome::NotHeld(Reason::Broken)),
                Some("expired") => Some(RenewalOutcome::NotHeld(Reason::Expired)),
                _ => Some(RenewalOutcome::NotHeld(Reason::Gone)),
            };
            let hold = usize::try_from(at).ok().and_then(|at| holds.get(at));
            let renewal = outcome.map(|outcome| Renewal { outcome, waiters });
            renewals.extend(hold.map(|(place, _)| (*place, renewal)));
        }
        Ok(renewals)
    }
}

/// Doubles the size limit after success, unless a concurrent renewal has changed it.
fn grown(limit: usize, size: usize) -> usize {
    if limit == size { limit.saturating_mul(2) } else { limit }
}

/// Merges two results. Ignores an error if the other has renewals.
fn all_known(some: Result<Renewals>, others: Result<Renewals>) -> Result<Renewals> {
    match (some, others) {
        (Ok(mut some), Ok(others)) => {
            some.extend(others);
            Ok(some)
        }
        (Ok(known), Err(_)) | (Err(_), Ok(known)) if !known.is_empty() => Ok(known),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn keep_locked(holds: &mut Vec<(usize, &Renew<'_>)>, renewals: &Renewals) {
    holds.retain(|(place, _)| matches!(renewals.get(place), Some(None)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_without_overflow() {
        assert_eq!([grown(8, 8), grown(8, 1_000)], [16, 8]);
        let mut limit = 1;
        for _ in 0..200 {
            limit = grown(limit, limit);
        }
        assert_eq!(limit, usize::MAX);
    }
}
