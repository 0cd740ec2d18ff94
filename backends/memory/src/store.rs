//! All holds, queues and tombstones. Every method is one atomic step at the caller's instant.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::hash_map::EntryRef;
use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Claim, Cursor, Error, Fence,
    Inspection, LockName, Mode, NameMap, Page, Reason, ReleaseMode, ReleaseOutcome, Renew, Renewal,
    RenewalOutcome, Result, Token,
};

use crate::row::{Held, Row, secs};
use crate::tombstones::Tombstones;

const PAGE: usize = 100;

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) names: NameMap<Row>,
    /// The last fence of any name. With a counter per name, no name could be removed.
    pub(crate) last_fence: u64,
    pub(crate) tombstones: Tombstones,
    pub(crate) last_step: BootInstant,
    tidy_at: usize,
}

impl Store {
    /// Removes names without holds and waiters, if the number of names has doubled since last time.
    pub(crate) fn tidy(&mut self, now: BootInstant) {
        if self.names.len() <= self.tidy_at {
            return;
        }
        self.names.retain(|_, row| {
            row.expire(now);
            !row.is_idle()
        });
        self.tidy_at = 2 * self.names.len() + 64;
    }

    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        queue_for: Option<Duration>,
        now: BootInstant,
    ) -> Result<Done<AcquireOutcome>> {
        self.tombstones.refuse(claim.token, now)?;
        self.tidy(now);
        let row = self.names.entry_ref(&claim.name).or_default();
        row.expire(now);
        let waiters = row.is_waited_for();
        if let Some(hold) = row.held_by(claim.token) {
            let mut granted = hold.repeated(claim.ttl, now);
            granted.waiters = waiters;
            return Ok(Done::new(AcquireOutcome::Granted(granted), false));
        }
        if row.is_of_another_kind(claim.mode) {
            return Err(Error::other_kind(claim.mode));
        }
        if row.admits(claim.token, claim.mode) {
            let (fence, fences) = match row.epoch(claim.mode) {
                Some(epoch) => (epoch, 1),
                None => {
                    let fences =
                        if claim.mode == Mode::Exclusive { claim.fences.max(1) } else { 1 };
                    (next_fence(&mut self.last_fence, fences)?, fences)
                }
            };
            let has_waited = row.leave_queue(claim.token);
            let hold = Held {
                token: claim.token,
                identity: Arc::clone(&claim.identity),
                mode: claim.mode,
                fence,
                fences,
                recall: claim.recall,
                granted_secs: secs(now),
                expires: now + claim.ttl,
                broken: None,
            };
            let mut granted = hold.granted();
            granted.waiters = row.is_waited_for();
            row.add(hold);
            let wake = has_waited && row.lets_next_in();
            return Ok(Done::new(AcquireOutcome::Granted(granted), wake));
        }
        let queued = queue_for.is_some();
        if let Some(patience) = queue_for {
            row.queue_up(claim.token, claim.mode, now + patience);
        }
        // An expiry causes no wake-up, so the client must retry at the expiry, or after the claim's
        // TTL if only waiters are ahead.
        let free_in = row.free_at(claim.mode).map_or(claim.ttl, |at| at.saturating_since(now));
        let busy = Busy {
            retry_after: Some(free_in),
            holder: row.holds().next().map(|hold| Box::new(hold.shown(now))),
            queued,
        };
        let recalled = row.holds().next().filter(|hold| hold.recall).map(|hold| hold.token);
        Ok(Done { recalled, ..Done::new(AcquireOutcome::Busy(busy), false) })
    }

    pub(crate) fn renew(&mut self, renew: &Renew<'_>, now: BootInstant) -> Renewal {
        let claim = renew.claim;
        let Some(row) = self.names.get_mut(&claim.name) else {
            return Renewal::not_held(Reason::Gone);
        };
        let waiters = row.is_waited_for();
        let outcome = match row.held_by(claim.token) {
            None => RenewalOutcome::NotHeld(Reason::Gone),
            Some(hold) if now >= hold.expires => RenewalOutcome::NotHeld(Reason::Expired),
            Some(hold) if hold.broken.is_some() => RenewalOutcome::NotHeld(Reason::Broken),
            Some(hold) => {
                hold.expires = now + claim.ttl;
                RenewalOutcome::Renewed { valid: None }
            }
        };
        Renewal { outcome, waiters }
    }

    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Done<ReleaseOutcome> {
        if release_mode == ReleaseMode::Reconcile {
            self.tombstones.insert(claim.token, now);
        }
        let not_held = Done::new(ReleaseOutcome::NotHeld, false);
        let EntryRef::Occupied(mut entry) = self.names.entry_ref(&claim.name) else {
            return not_held;
        };
        let row = entry.get_mut();
        let held = row.remove(claim.token).is_some_and(|hold| now < hold.expires);
        row.expire(now);
        let left = row.leave_queue(claim.token);
        let wake = row.lets_next_in();
        if row.is_idle() {
            entry.remove();
        }
        let answer = if held || left { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld };
        Done::new(answer, wake)
    }

    pub(crate) fn swap(
        &mut self,
        from: Token,
        to: &Claim,
        now: BootInstant,
    ) -> Result<AcquireOutcome> {
        self.tombstones.refuse(to.token, now)?;
        let not_held = Ok(AcquireOutcome::Busy(Busy::default()));
        let Some(row) = self.names.get_mut(&to.name) else { return not_held };
        row.expire(now);
        // If this swap repeats an unanswered one, the hold already has the new token.
        if let Some(hold) = row.held_by(to.token) {
            return Ok(AcquireOutcome::Granted(hold.repeated(to.ttl, now)));
        }
        let Some(hold) = row.held_by(from) else { return not_held };
        if hold.broken.is_some() || hold.mode != to.mode {
            return not_held;
        }
        // Concurrent readers share a fence.
        if hold.mode != Mode::Shared {
            hold.fence = next_fence(&mut self.last_fence, 1)?;
        }
        hold.fences = 1;
        hold.token = to.token;
        hold.identity = Arc::clone(&to.identity);
        hold.expires = now + to.ttl;
        hold.granted_secs = secs(now);
        let granted = hold.granted();
        // The tombstone rejects a late duplicate of the old token's acquire.
        self.tombstones.insert(from, now);
        Ok(AcquireOutcome::Granted(granted))
    }

    /// Breaks the holds that match `seen`. Returns their tokens.
    pub(crate) fn break_lock(
        &mut self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        note: &str,
        now: BootInstant,
    ) -> Done<(Broken, Vec<Token>)> {
        let nothing = || Done::new((Broken::NotHeld, Vec::new()), false);
        let Some(row) = self.names.get_mut(name) else { return nothing() };
        row.expire(now);
        let is_meant = |hold: &Held| match seen {
            BreakTarget::Token(token) => token == hold.token,
            BreakTarget::Any => true,
        };
        let meant = || row.holds().filter(|hold| is_meant(hold));
        let Some(left) = meant().map(|hold| hold.left(now)).max() else { return nothing() };
        let tokens: Vec<Token> = meant().map(|hold| hold.token).collect();
        match how {
            BreakMode::RunOut => {
                for hold in row.holds_mut().filter(|hold| is_meant(hold)) {
                    hold.broken.get_or_insert_with(|| note.into());
                }
                Done::new((Broken::RunsOut(left), tokens), false)
            }
            BreakMode::Now => {
                for token in &tokens {
                    row.remove(*token);
                    self.tombstones.insert(*token, now);
                }
                let wake = row.lets_next_in();
                if row.is_idle() {
                    self.names.remove(name);
                }
                Done::new((Broken::Freed(left), tokens), wake)
            }
        }
    }

    pub(crate) fn inspect(&self, name: &LockName, now: BootInstant) -> Inspection {
        let mut inspection = Inspection::free(name.clone());
        inspection.waiters = Some(0);
        if let Some(row) = self.names.get(name) {
            inspection.holders.extend(row.live(now).map(|hold| hold.shown_to_operators(now)));
            inspection.waiters = Some(row.waiters(now));
            inspection.fence = row.fence();
        }
        inspection
    }

    pub(crate) fn list(&self, prefix: &str, after: Option<&str>, now: BootInstant) -> Page {
        let mut names: Vec<&LockName> = self
            .names
            .iter()
            .filter(|(name, row)| {
                name.as_str().starts_with(prefix)
                    && after.is_none_or(|after| name.as_str() > after)
                    && row.live(now).next().is_some()
            })
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        let next = names.get(PAGE - 1).filter(|_| names.len() > PAGE);
        let next = next.map(|last| Cursor(last.as_str().to_owned()));
        Page {
            names: names.into_iter().take(PAGE).map(|name| self.inspect(name, now)).collect(),
            next,
        }
    }
}

pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) wake: bool,
    /// The token of the hold to recall.
    pub(crate) recalled: Option<Token>,
}

impl<T> Done<T> {
    fn new(answer: T, wake: bool) -> Self {
        Self { answer, wake, recalled: None }
    }
}

pub(crate) fn next_fence(last: &mut u64, count: u32) -> Result<u64> {
    let reserved = *last + u64::from(count);
    if reserved > Fence::MAX.get() {
        return Err(Error::unavailable("all fences are used up; create a new store"));
    }
    Ok(std::mem::replace(last, reserved) + 1)
}
