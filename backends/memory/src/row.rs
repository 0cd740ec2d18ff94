use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{BootInstant, Fence, Granted, Holder, Identity, Mode, Token};

/// The holds and the queue of one name. Without them, a lock's name may become a semaphore's, and
/// the reverse.
#[derive(Default)]
pub(crate) struct Row {
    first: Option<Held>,
    #[expect(clippy::box_collection, reason = "mostly absent, and there may be 100,000 of them")]
    others: Option<Box<Vec<Held>>>,
    #[expect(clippy::box_collection, reason = "mostly absent, and there may be 100,000 of them")]
    queue: Option<Box<VecDeque<Waiter>>>,
}

pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) identity: Arc<Identity>,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) fences: u32,
    pub(crate) recall: bool,
    /// Seconds of the boot clock. A `u32` fits into the struct's padding.
    pub(crate) granted_secs: u32,
    pub(crate) expires: BootInstant,
    pub(crate) broken: Option<Box<str>>,
}

struct Waiter {
    token: Token,
    mode: Mode,
    /// When the waiter is removed, unless it polls again.
    live_until: BootInstant,
}

impl Row {
    pub(crate) fn expire(&mut self, now: BootInstant) {
        self.first.take_if(|hold| now >= hold.expires);
        if let Some(others) = &mut self.others {
            others.retain(|hold| now < hold.expires);
        }
        self.close_up();
        if let Some(queue) = &mut self.queue {
            queue.retain(|waiter| now < waiter.live_until);
            if queue.is_empty() {
                self.queue = None;
            }
        }
    }

    /// Returns all holds, including those that expired since the last [`expire`](Self::expire).
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Held> {
        self.first.iter().chain(self.others.iter().flat_map(|others| others.iter()))
    }

    pub(crate) fn holds_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.first.iter_mut().chain(self.others.iter_mut().flat_map(|others| others.iter_mut()))
    }

    pub(crate) fn live(&self, now: BootInstant) -> impl Iterator<Item = &Held> {
        self.holds().filter(move |hold| now < hold.expires)
    }

    pub(crate) fn held_by(&mut self, token: Token) -> Option<&mut Held> {
        self.holds_mut().find(|hold| hold.token == token)
    }

    pub(crate) fn add(&mut self, hold: Held) {
        match &self.first {
            None => self.first = Some(hold),
            Some(_) => self.others.get_or_insert_default().push(hold),
        }
    }

    pub(crate) fn remove(&mut self, token: Token) -> Option<Held> {
        let first = self.first.take_if(|hold| hold.token == token);
        let removed = first.or_else(|| {
            let others = self.others.as_mut()?;
            let at = others.iter().position(|hold| hold.token == token)?;
            Some(others.swap_remove(at))
        });
        self.close_up();
        removed
    }

    fn close_up(&mut self) {
        if let Some(others) = &mut self.others {
            if self.first.is_none() {
                self.first = others.pop();
            }
            if others.is_empty() {
                self.others = None;
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.first.is_none() && self.queue.is_none()
    }

    pub(crate) fn is_of_another_kind(&self, mode: Mode) -> bool {
        let waiting = || self.queue.as_ref()?.front().map(|waiter| waiter.mode);
        let present = self.first.as_ref().map(|hold| hold.mode).or_else(waiting);
        present.is_some_and(|present| !present.is_of_the_kind_of(mode))
    }

    /// Returns whether a claim can be granted. A waiter may be overtaken only if it and the claim
    /// are readers.
    pub(crate) fn admits(&self, token: Token, mode: Mode) -> bool {
        let fits = match mode {
            Mode::Exclusive => self.first.is_none(),
            Mode::Shared => self.holds().all(|hold| hold.mode == Mode::Shared),
            Mode::Permits { count, of } => {
                let taken: u64 = self.holds().map(|hold| permits(hold.mode)).sum();
                taken + u64::from(count) <= u64::from(of)
            }
            _ => false,
        };
        let mut before =
            self.queue.iter().flat_map(|queue| queue.iter()).take_while(|w| w.token != token);
        fits && before.all(|waiter| mode == Mode::Shared && waiter.mode == Mode::Shared)
    }

    pub(crate) fn lets_next_in(&self) -> bool {
        let first = self.queue.as_ref().and_then(|queue| queue.front());
        first.is_some_and(|first| self.admits(first.token, first.mode))
    }

    pub(crate) fn epoch(&self, mode: Mode) -> Option<u64> {
        let reader = self.first.as_ref().filter(|hold| hold.mode == Mode::Shared)?;
        (mode == Mode::Shared).then_some(reader.fence)
    }

    /// Returns when an expiry may admit a claim: the first expiry for permits, the last for other
    /// modes.
    pub(crate) fn free_at(&self, mode: Mode) -> Option<BootInstant> {
        let ends = self.holds().map(|hold| hold.expires);
        match mode {
            Mode::Permits { .. } => ends.min(),
            _ => ends.max(),
        }
    }

    pub(crate) fn fence(&self) -> Option<Fence> {
        let last = |hold: &Held| hold.fence + u64::from(hold.fences) - 1;
        self.holds().filter(|hold| hold.has_fence()).map(last).max().map(Fence::new)
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.queue.is_some()
    }

    pub(crate) fn waiters(&self, now: BootInstant) -> u64 {
        let queue = self.queue.iter().flat_map(|queue| queue.iter());
        queue.filter(|waiter| now < waiter.live_until).count() as u64
    }

    pub(crate) fn queue_up(&mut self, token: Token, mode: Mode, live_until: BootInstant) {
        let queue = self.queue.get_or_insert_default();
        match queue.iter_mut().find(|waiter| waiter.token == token) {
            Some(waiter) => waiter.live_until = live_until,
            None => queue.push_back(Waiter { token, mode, live_until }),
        }
    }

    pub(crate) fn leave_queue(&mut self, token: Token) -> bool {
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
    pub(crate) fn granted(&self) -> Granted {
        let mut granted = Granted::new(Fence::new(self.fence));
        granted.fences = self.fences;
        granted
    }

    /// Returns the grant for a repeated request, with a new TTL unless the hold was broken.
    pub(crate) fn repeated(&mut self, ttl: Duration, now: BootInstant) -> Granted {
        let mut granted = self.granted();
        if self.broken.is_some() {
            granted.valid = Some(self.left(now));
        } else {
            self.expires = now + ttl;
        }
        granted
    }

    pub(crate) fn left(&self, now: BootInstant) -> Duration {
        self.expires.saturating_since(now)
    }

    fn has_fence(&self) -> bool {
        !matches!(self.mode, Mode::Permits { .. })
    }

    /// Like `shown`, with `since`, for which the client reads the wall clock.
    pub(crate) fn shown_to_operators(&self, now: BootInstant) -> Holder {
        let mut holder = self.shown(now);
        holder.set_granted(BootInstant::from_nanos(u64::from(self.granted_secs) * NANOS), now);
        holder
    }

    pub(crate) fn shown(&self, now: BootInstant) -> Holder {
        let mut holder = Holder::new(Some(self.token));
        holder.identity = Some((*self.identity).clone());
        holder.mode = self.mode;
        holder.fence = self.has_fence().then(|| Fence::new(self.fence));
        holder.remaining = Some(self.left(now));
        holder.broken = self.broken.as_deref().map(str::to_owned);
        holder
    }
}

const NANOS: u64 = 1_000_000_000;

pub(crate) fn secs(instant: BootInstant) -> u32 {
    u32::try_from(instant.as_nanos() / NANOS).unwrap_or(u32::MAX)
}

fn permits(mode: Mode) -> u64 {
    match mode {
        Mode::Permits { count, .. } => u64::from(count),
        _ => 0,
    }
}
