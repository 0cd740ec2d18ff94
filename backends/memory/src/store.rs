//! The holds, queues and tombstones. Every method is one atomic step, given that its caller has
//! the store to itself; the instant at which it happens is the caller's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::hash_map::EntryRef;
use lockwright_core::{
    Attempt, BootInstant, BreakHow, Broken, Busy, Claim, Cursor, Ended, Error, ErrorKind, Fence,
    Granted, Holder, Identity, Inspection, LockName, Mode, NameMap, Page, Reason, Renew, Renewal,
    RenewalOutcome, Result, Seen, Settle, Token,
};

/// How long a tombstone keeps a late duplicate out, at least.
const TOMBSTONE: Duration = Duration::from_secs(3_600);
/// How many tombstones there may be before the old ones are looked for.
const SWEEP_FROM: usize = 1_024;
/// How many names a page of a listing has.
const PAGE: usize = 100;

#[derive(Default)]
pub(crate) struct Store {
    names: NameMap<Row>,
    /// The last fence of any name: one counter for all is above each of them, and lets idle names
    /// be forgotten.
    last_fence: u64,
    tombstones: HashMap<Token, BootInstant>,
}

#[derive(Default)]
struct Row {
    hold: Option<Held>,
    #[expect(clippy::box_collection, reason = "mostly absent, and there may be 100,000 of them")]
    queue: Option<Box<VecDeque<Waiter>>>,
}

struct Held {
    token: Token,
    identity: Arc<Identity>,
    fence: u64,
    fences: u32,
    expires: BootInstant,
    broken: Option<Box<str>>,
}

struct Waiter {
    token: Token,
    /// It has gone without a word if it hasn't asked again by then.
    live_until: BootInstant,
}

/// What a step did, and whether those who wait for the name should be told.
pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) wake: bool,
}

impl Store {
    pub(crate) fn acquire(
        &mut self,
        claim: &Claim,
        queue_for: Option<Duration>,
        now: BootInstant,
    ) -> Result<Attempt> {
        if !self.tombstones.is_empty() && self.tombstones.contains_key(&claim.token) {
            return Err(Error::new(
                ErrorKind::Lost(Reason::Gone),
                "this claim was ended before it arrived; ask with a new token",
            ));
        }
        let row = self.names.entry_ref(&claim.name).or_default();
        row.expire(now);
        if let Some(hold) = row.hold.as_mut().filter(|hold| hold.token == claim.token) {
            let mut granted = hold.granted();
            if hold.broken.is_some() {
                granted.valid = Some(hold.expires.saturating_since(now));
            } else {
                hold.expires = now + claim.ttl;
            }
            granted.waiters = row.queue.is_some();
            return Ok(Attempt::Granted(granted));
        }
        if row.hold.is_none() && row.is_next(claim.token) {
            let fence = self.last_fence + 1;
            let last = self.last_fence + u64::from(claim.fences.max(1));
            if last > Fence::MAX.get() {
                return Err(Error::unavailable("the fences are used up; begin with a new store"));
            }
            self.last_fence = last;
            row.leave_queue(claim.token);
            let hold = Held {
                token: claim.token,
                identity: Arc::clone(&claim.identity),
                fence,
                fences: claim.fences.max(1),
                expires: now + claim.ttl,
                broken: None,
            };
            let mut granted = hold.granted();
            granted.waiters = row.queue.is_some();
            row.hold = Some(hold);
            return Ok(Attempt::Granted(granted));
        }
        let queued = queue_for.is_some();
        if let Some(patience) = queue_for {
            row.queue_up(claim.token, now + patience);
        }
        Ok(Attempt::Busy(Busy {
            retry_after: row.hold.as_ref().map(|hold| hold.expires.saturating_since(now)),
            holder: row.hold.as_ref().map(|hold| Box::new(hold.shown(now))),
            queued,
        }))
    }

    pub(crate) fn renew(&mut self, renew: &Renew<'_>, now: BootInstant) -> Renewal {
        let claim = renew.claim;
        let Some(row) = self.names.get_mut(&claim.name) else {
            return Renewal::not_held(Reason::Gone);
        };
        let waiters = row.queue.is_some();
        let outcome = match row.hold.as_mut().filter(|hold| hold.token == claim.token) {
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
        settle: Settle,
        now: BootInstant,
    ) -> Done<Ended> {
        if settle == Settle::Unanswered {
            if self.tombstones.len() >= SWEEP_FROM {
                self.tombstones.retain(|_, until| now < *until);
            }
            self.tombstones.insert(claim.token, now + TOMBSTONE.max(claim.ttl));
        }
        let not_held = Done { answer: Ended::NotHeld, wake: false };
        let EntryRef::Occupied(mut entry) = self.names.entry_ref(&claim.name) else {
            return not_held;
        };
        let row = entry.get_mut();
        let held = row.hold.as_ref().is_some_and(|hold| hold.token == claim.token);
        let expired = row.expire(now);
        if held {
            row.hold = None;
        }
        let left = row.leave_queue(claim.token);
        let wake = row.hold.is_none() && row.queue.is_some();
        if row.is_idle() {
            entry.remove();
        }
        let answer = if (held && !expired) || left { Ended::Released } else { Ended::NotHeld };
        Done { answer, wake }
    }

    pub(crate) fn inspect(&self, name: &LockName, now: BootInstant) -> Inspection {
        let mut inspection = Inspection::free(name.clone());
        if let Some(row) = self.names.get(name) {
            inspection.holders.extend(row.live(now).map(|hold| hold.shown(now)));
            inspection.waiters = Some(
                row.queue
                    .as_ref()
                    .map_or(0, |queue| queue.iter().filter(|w| now < w.live_until).count())
                    as u64,
            );
            inspection.fence =
                row.hold.as_ref().map(|hold| Fence::new(hold.fence + u64::from(hold.fences) - 1));
        } else {
            inspection.waiters = Some(0);
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
                    && row.live(now).is_some()
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

    /// Breaks the hold that was seen. Answers its token too, so that its holder can be told.
    pub(crate) fn break_lock(
        &mut self,
        name: &LockName,
        seen: Seen,
        how: BreakHow,
        note: &str,
        now: BootInstant,
    ) -> Done<(Broken, Option<Token>)> {
        let nothing = Done { answer: (Broken::NotHeld, None), wake: false };
        let Some(row) = self.names.get_mut(name) else { return nothing };
        row.expire(now);
        let Some(hold) = row.hold.as_mut() else { return nothing };
        if matches!(seen, Seen::Token(token) if token != hold.token) {
            return nothing;
        }
        let left = hold.expires.saturating_since(now);
        let token = Some(hold.token);
        match how {
            BreakHow::RunOut => {
                hold.broken.get_or_insert_with(|| note.into());
                Done { answer: (Broken::RunsOut(left), token), wake: false }
            }
            BreakHow::Now => {
                // A repeat of its acquire may still be on its way.
                self.tombstones.insert(hold.token, now + TOMBSTONE);
                row.hold = None;
                let wake = row.queue.is_some();
                if row.is_idle() {
                    self.names.remove(name);
                }
                Done { answer: (Broken::Freed(left), token), wake }
            }
        }
    }

    /// How many names there is anything about.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Row {
    /// Forgets what has run out: the hold, and waiters that have gone. True if the hold had.
    fn expire(&mut self, now: BootInstant) -> bool {
        let expired = self.hold.take_if(|hold| now >= hold.expires).is_some();
        if let Some(queue) = &mut self.queue {
            queue.retain(|waiter| now < waiter.live_until);
            if queue.is_empty() {
                self.queue = None;
            }
        }
        expired
    }

    fn live(&self, now: BootInstant) -> Option<&Held> {
        self.hold.as_ref().filter(|hold| now < hold.expires)
    }

    fn is_idle(&self) -> bool {
        self.hold.is_none() && self.queue.is_none()
    }

    /// Whether nobody stands before the token in the queue.
    fn is_next(&self, token: Token) -> bool {
        self.queue.as_ref().and_then(|queue| queue.front()).is_none_or(|first| first.token == token)
    }

    fn queue_up(&mut self, token: Token, live_until: BootInstant) {
        let queue = self.queue.get_or_insert_default();
        match queue.iter_mut().find(|waiter| waiter.token == token) {
            Some(waiter) => waiter.live_until = live_until,
            None => queue.push_back(Waiter { token, live_until }),
        }
    }

    fn leave_queue(&mut self, token: Token) -> bool {
        let Some(queue) = &mut self.queue else { return false };
        let before = queue.len();
        queue.retain(|waiter| waiter.token != token);
        let left = queue.len() < before;
        if queue.is_empty() {
            self.queue = None;
        }
        left
    }
}

impl Held {
    fn granted(&self) -> Granted {
        let mut granted = Granted::new(Fence::new(self.fence));
        granted.fences = self.fences;
        granted
    }

    fn shown(&self, now: BootInstant) -> Holder {
        let mut holder = Holder::new(Some(self.token));
        holder.identity = Some((*self.identity).clone());
        holder.mode = Mode::Exclusive;
        holder.fence = Some(Fence::new(self.fence));
        holder.remaining = Some(self.expires.saturating_since(now));
        holder.broken = self.broken.as_deref().map(str::to_owned);
        holder
    }
}
