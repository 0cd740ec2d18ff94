//! The queue of a client's exclusive requests for one name, in order of arrival. Only the first
//! request has the turn, and may send requests about the name. The turn ends when the hold has
//! ended on the server, or after the first failed background attempt to release it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use crate::client::acquire::doubted;
use crate::client::answer::send;
use crate::client::{Options, Pending, ignore_panic};
use crate::{
    BootInstant, Claim, Error, ErrorKind, HoldState, LockName, Mode, ReleaseMode, RenewalMode,
    Result,
};

use super::background_release::send_release;
use super::releasing::{Use, end_in_background};
use super::{
    Entered, Hold, Job, Passed, Queued, Reentry, Settings, Shared, Taken, Trouble, Turn, Turns,
};

/// From this length on, timed-out and dropped requests are removed from a queue.
const SWEPT_LENGTH: usize = 64;

impl Trouble {
    pub(crate) fn error(&self, now: BootInstant) -> Error {
        Error::unavailable("the server has not answered an earlier request for this lock")
            .tried_for(now.saturating_since(self.since))
            .with_source(Error::indeterminate(&*self.message))
    }
}

impl Entered {
    fn of(hold: &Arc<Hold>) -> Self {
        hold.guards.fetch_add(1, Ordering::AcqRel);
        Self::handed_over(hold)
    }

    /// The hold's former guard is gone, so the number of guards stays.
    pub(super) fn handed_over(hold: &Arc<Hold>) -> Self {
        Self(Some(Arc::clone(hold)))
    }

    /// Returns the hold. Releases it if it is at risk or lost because the request wasn't polled.
    pub(crate) fn into_sound_hold(self, now: BootInstant) -> Option<Arc<Hold>> {
        let hold = self.0.as_ref().filter(|hold| hold.state_at(now) == HoldState::Held)?;
        // If a renewal is due already, the next check, within a twentieth of the TTL, starts it.
        hold.set_taken(true);
        Some(self.into_hold())
    }

    fn again(hold: &Arc<Hold>) -> Self {
        hold.shared.metrics.reentered.add(1);
        Self::of(hold)
    }

    pub(crate) fn into_hold(mut self) -> Arc<Hold> {
        self.0.take().expect("a share has its hold until it is taken")
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            end_in_background(hold, Use::Dropped);
        }
    }
}

pub(crate) enum Entry {
    Turn,
    /// The mode allows concurrent holders, so the request needs no turn.
    NoTurn,
    Entered(Entered),
    /// The request takes this hold, or releases it first.
    Warm(Arc<Hold>),
    Queued(oneshot::Receiver<Passed>),
    Busy,
}

impl Turn {
    pub(crate) fn taken(shared: Arc<Shared>, name: LockName) -> Self {
        Self { shared: Some(shared), taken: true, fences: 1, name: Some(name), pending: None }
    }

    pub(crate) fn placeholder(shared: Arc<Shared>, name: LockName) -> Self {
        Self { shared: Some(shared), taken: false, fences: 1, name: Some(name), pending: None }
    }

    /// Takes the turn of a hold that is about to be released. Returns `None` if a background
    /// release has it.
    pub(crate) fn taken_from(hold: &Hold, name: &LockName) -> Option<Self> {
        let has_turn = {
            let _table = hold.shared.table();
            hold.take_turn()
        };
        has_turn.then(|| Self::taken(Arc::clone(&hold.shared), name.clone()))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.shared.as_ref().expect("a turn has its client until it went to a hold")
    }

    pub(crate) fn name(&self) -> &LockName {
        self.name
            .as_ref()
            .or_else(|| self.pending.as_ref().map(|pending| &pending.claim.name))
            .expect("a turn has its name, or its claim does")
    }

    pub(crate) fn note_trouble(&self, since: BootInstant, error: &Error) {
        if self.taken {
            self.shared().note_trouble(self.name(), since, error);
        }
    }

    pub(crate) fn doubted(&self, error: Error) -> Error {
        match &self.pending {
            Some(pending) if pending.release_mode == ReleaseMode::Reconcile => doubted(error),
            _ => error,
        }
    }

    pub(crate) fn note_answer(&self) {
        if self.taken {
            self.shared().table().turns.note_answer(self.name());
        }
    }

    #[inline]
    pub(crate) fn claim(&mut self, options: &Options, now: BootInstant) -> (&Shared, &mut Pending) {
        let shared = self.shared.as_deref().expect("a turn has its client until it went to a hold");
        let pending = match &mut self.pending {
            Some(pending) => pending,
            none => {
                // Create the token first: if that panics, the turn must still have a name.
                let token = shared.settings.tokens.next(now);
                let name = self.name.take().expect("it isn't with a claim");
                none.insert(Pending::new(shared, name, token, options, self.fences, now))
            }
        };
        (shared, pending)
    }

    /// Moves the pending claim to a value that withdraws the claim when it is dropped.
    pub(crate) fn give_back(&mut self) -> Self {
        let name = self.name().clone();
        let mut back = Self::placeholder(Arc::clone(self.shared()), name.clone());
        back.pending = self.pending.take();
        self.name = Some(name);
        back
    }

    pub(crate) async fn release(mut self) {
        let Some(pending) = &self.pending else { return };
        let answer = send_release(self.shared(), &pending.claim, pending.release_mode).await;
        if answer.is_ok() && self.shared().one_answer_reconciles(pending.release_mode) {
            self.pending = None;
        }
    }

    #[inline]
    pub(crate) fn take_parts(&mut self) -> Option<(Arc<Shared>, Pending, bool)> {
        Some((self.shared.take()?, self.pending.take()?, self.taken))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let name = self.name().clone();
        let pending = self.pending.take().filter(|pending| pending.on_server);
        if self.taken {
            shared.pass_turn(&name, pending);
        } else if let Some(pending) = pending {
            Shared::in_background(Job::reconcile(shared, pending, false));
        }
    }
}

impl Turns {
    pub(crate) fn enter(
        &mut self,
        name: &LockName,
        wanted: &Options,
        may_wait: bool,
        now: BootInstant,
    ) -> Result<Entry> {
        use hashbrown::hash_map::EntryRef as Place;

        if wanted.mode != Mode::Exclusive {
            return match self.enter_shared(name, wanted, now)? {
                Entry::NoTurn => Ok(self.take_warm_of(name).map_or(Entry::NoTurn, Entry::Warm)),
                entry => Ok(entry),
            };
        }
        let of_owner = |owner| self.shared_holders.of(name, owner, now);
        if let Some(hold) = wanted.owner.as_ref().and_then(of_owner) {
            return Err(unchangeable(hold.claim.mode, wanted.mode));
        }
        let taken = match self.taken.entry_ref(name) {
            Place::Vacant(place) => {
                place.insert(Taken { reentry: wanted.reentry(), queue: None });
                return Ok(Entry::Turn);
            }
            Place::Occupied(place) => place.into_mut(),
        };
        if !self.warm.is_empty()
            && let Some(hold) = self.warm.remove(name)
        {
            taken.reentry = wanted.reentry();
            return Ok(Entry::Warm(hold));
        }
        if let Some(hold) = taken.enter_again(wanted, now)? {
            return Ok(Entry::Entered(hold));
        }
        if !may_wait {
            return match self.troubled.get(name) {
                Some(trouble) => Err(trouble.error(now)),
                None => Ok(Entry::Busy),
            };
        }
        let (sender, receiver) = oneshot::channel();
        let queue = taken.queue.get_or_insert_default();
        if queue.len() >= SWEPT_LENGTH && queue.len().is_power_of_two() {
            queue.retain(|queued| !queued.sender.is_closed());
        }
        queue.push_back(Queued { wanted: wanted.clone(), fences: 1, sender });
        Ok(Entry::Queued(receiver))
    }

    pub(crate) fn enter_shared(
        &self,
        name: &LockName,
        wanted: &Options,
        now: BootInstant,
    ) -> Result<Entry> {
        let Some(owner) = wanted.owner.as_ref().filter(|_| wanted.mode != Mode::Exclusive) else {
            return Ok(Entry::NoTurn);
        };
        let turn = self.taken.get(name).and_then(|taken| taken.reentry.as_ref());
        if turn.is_some_and(|reentry| reentry.owner == *owner) {
            return Err(unchangeable(Mode::Exclusive, wanted.mode));
        }
        match self.shared_holders.of(name, owner, now) {
            Some(hold) if hold.claim.mode == wanted.mode => {
                wanted.fits(hold, now)?;
                Ok(Entry::Entered(Entered::again(hold)))
            }
            Some(hold) => Err(unchangeable(hold.claim.mode, wanted.mode)),
            None => Ok(Entry::NoTurn),
        }
    }

    /// Records a granted hold. Returns the answers to its owner's queued requests: each shares the
    /// hold or is refused.
    pub(crate) fn granted(&mut self, hold: &Arc<Hold>) -> Vec<(oneshot::Sender<Passed>, Passed)> {
        let Some(owner) = &hold.owner else { return Vec::new() };
        if hold.claim.mode != Mode::Exclusive {
            self.shared_holders.add(hold);
            return Vec::new();
        }
        let Some(taken) = self.taken.get_mut(&hold.claim.name) else { return Vec::new() };
        taken.reentry =
            Some(Box::new(Reentry { owner: owner.clone(), hold: Some(Arc::clone(hold)) }));
        let Some(queue) = taken.queue.take() else { return Vec::new() };
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            queue.into_iter().partition(|queued| queued.wanted.owner.as_ref() == Some(owner));
        taken.queue = (!others.is_empty()).then(|| Box::new(others));
        let answer = |queued: Queued| {
            let passed = match queued.wanted.fits(hold, hold.granted_at) {
                Ok(()) => Passed::Entered(Entered::of(hold)),
                Err(error) => Passed::Refused(error),
            };
            (queued.sender, passed)
        };
        mine.into_iter().map(answer).collect()
    }

    fn leave(&mut self, hold: &Hold) -> bool {
        let last = hold.guards.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && hold.claim.mode != Mode::Exclusive {
            self.shared_holders.remove(hold);
        } else if last
            && let Some(taken) = self.taken.get_mut(&hold.claim.name)
            && taken
                .reentry
                .as_ref()
                .and_then(|reentry| reentry.hold.as_deref())
                .is_some_and(|h| std::ptr::eq(h, hold))
        {
            taken.reentry = None;
        }
        last
    }

    /// Gives the turn to the next queued request, and returns it. Returns `None` if no request
    /// waits, or if the next one can't take over the `pending` claim, which then keeps the turn.
    pub(crate) fn next(
        &mut self,
        name: &LockName,
        pending: Option<&Pending>,
        settings: &Settings,
    ) -> Option<Queued> {
        let hashbrown::hash_map::EntryRef::Occupied(mut entry) = self.taken.entry_ref(name) else {
            return None;
        };
        let taken = entry.get_mut();
        if self.warm.contains_key(name) {
            return None;
        }
        taken.reentry = None;
        if taken.queue.is_none() {
            if pending.is_none() {
                entry.remove();
                if !self.troubled.is_empty() {
                    self.troubled.remove(name);
                }
            }
            return None;
        }
        let takes_over = |next: &Queued| pending.is_none_or(|p| next.wanted.takes_over(&p.claim));
        let mut next = taken.pop_if(takes_over)?;
        next.reserve(taken.queue.as_ref().map_or(0, |queue| queue.len()), settings);
        taken.reentry = next.wanted.reentry();
        Some(next)
    }

    pub(crate) fn is_taken(&self, name: &LockName) -> bool {
        self.taken.contains_key(name)
    }

    pub(crate) fn trouble(&self, name: &LockName) -> Option<&Trouble> {
        self.troubled.get(name)
    }

    pub(crate) fn note_answer(&mut self, name: &LockName) {
        self.troubled.remove(name);
    }

    pub(crate) fn take_queued(&mut self) -> Vec<Queued> {
        let queues = self.taken.values_mut().filter_map(|taken| taken.queue.take());
        queues.flat_map(|queue| *queue).collect()
    }
}

impl Shared {
    pub(crate) fn note_trouble(&self, name: &LockName, since: BootInstant, error: &Error) {
        let message: Arc<str> = error.message().into();
        let trouble = Trouble { since, message: Arc::clone(&message) };
        let mut table = self.table();
        let is_queued = table.turns.taken.get(name).is_some_and(|taken| taken.queue.is_some());
        let is_new = !table.turns.troubled.contains_key(name);
        table.turns.troubled.entry_ref(name).or_insert(trouble).message = message;
        drop(table);
        if is_new && is_queued {
            ignore_panic(|| self.trouble.notify_waiters());
        }
    }

    pub(crate) fn leave(&self, hold: &Hold) -> bool {
        hold.owner.is_none() || self.table().turns.leave(hold)
    }

    pub(crate) fn leave_if_last(&self, hold: &Hold) -> bool {
        if hold.owner.is_none() {
            return true;
        }
        let mut table = self.table();
        hold.guards.load(Ordering::Acquire) == 1 && table.turns.leave(hold)
    }

    pub(crate) fn pass_turn(self: &Arc<Self>, name: &LockName, pending: Option<Pending>) {
        let next = self.table().turns.next(name, pending.as_ref(), &self.settings);
        self.pass_turn_to(next, name, pending);
    }

    pub(crate) fn pass_turn_to(
        self: &Arc<Self>,
        mut next: Option<Queued>,
        name: &LockName,
        mut pending: Option<Pending>,
    ) {
        while let Some(queued) = next {
            let mut turn = Turn::taken(Arc::clone(self), name.clone());
            turn.pending = pending.take();
            turn.fences = queued.fences;
            match send(queued.sender, Passed::Turn(turn)) {
                Ok(()) => return,
                Err(Passed::Turn(mut turn)) => {
                    // If `turn.shared` were set, the drop of `turn` would recurse, maybe thousands
                    // of calls deep.
                    turn.shared = None;
                    pending = turn.pending.take();
                }
                Err(_) => unreachable!("a turn was sent"),
            }
            next = self.table().turns.next(name, pending.as_ref(), &self.settings);
        }
        if let Some(pending) = pending {
            Self::in_background(Job::reconcile(Arc::clone(self), pending, true));
        }
    }
}

impl Taken {
    pub(super) fn pop_if(&mut self, may_pop: impl Fn(&Queued) -> bool) -> Option<Queued> {
        let queue = self.queue.as_mut()?;
        queue.front().filter(|next| may_pop(next))?;
        let next = queue.pop_front()?;
        if queue.is_empty() {
            self.queue = None;
        }
        Some(next)
    }

    fn enter_again(&self, wanted: &Options, now: BootInstant) -> Result<Option<Entered>> {
        let Some(reentry) = &self.reentry else { return Ok(None) };
        if wanted.owner.as_ref() != Some(&reentry.owner) {
            return Ok(None);
        }
        let Some(hold) = &reentry.hold else { return Ok(None) };
        if !hold.looks_live(now) {
            return Ok(None);
        }
        wanted.fits(hold, now)?;
        Ok(Some(Entered::again(hold)))
    }
}

impl Options {
    fn reentry(&self) -> Option<Box<Reentry>> {
        self.owner.clone().map(|owner| Box::new(Reentry { owner, hold: None }))
    }

    pub(super) fn takes_over(&self, claim: &Claim) -> bool {
        let is_who_asks = match &self.identity {
            Some(identity) => *identity == claim.identity,
            None => claim.identity.value.is_none(),
        };
        is_who_asks
            && self.mode == claim.mode
            && self.ttl == claim.ttl
            && self.renewal_mode == claim.renewal_mode
    }

    /// Checks that the request can share the owner's hold. If not, it fails: waiting would make the
    /// owner wait for itself.
    fn fits(&self, hold: &Hold, now: BootInstant) -> Result<()> {
        let renewed =
            self.renewal_mode == RenewalMode::Off && hold.claim.renewal_mode != RenewalMode::Off;
        let too_long = self.max_hold().is_some_and(|time| hold.max_hold_end() > now + time);
        let what = match (renewed, too_long) {
            (false, false) => return Ok(()),
            (true, _) => "fixed, because the hold is renewed",
            (false, true) => "limited by this max_hold, because the hold may last longer",
        };
        let message = format!(
            "this owner holds the lock already, and a second guard can't be {what}; use the same setting \
             for the first request, or release it before"
        );
        Err(Error::new(ErrorKind::Conflict, message))
    }
}

fn unchangeable(present: Mode, wanted: Mode) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "this owner holds it or waits for it as {present}, and a hold can't be changed to \
             {wanted}; release it first"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_whose_callers_left_are_removed() {
        let options = Options {
            mode: Mode::Exclusive,
            ttl: std::time::Duration::from_secs(30),
            renewal_mode: RenewalMode::Auto,
            owner: None,
            identity: None,
            keep_warm: None,
            hold_times: None,
            #[cfg(feature = "metrics")]
            group: "",
            wait: None,
            retry: None,
        };
        let mut turns = Turns::default();
        let (name, now) = (LockName::new("x").unwrap(), BootInstant::from_nanos(0));
        assert!(matches!(turns.enter(&name, &options, true, now), Ok(Entry::Turn)));
        for _ in 0..10_000 {
            assert!(matches!(turns.enter(&name, &options, true, now), Ok(Entry::Queued(_))));
        }
        let queue = turns.taken.get(&name).unwrap().queue.as_ref().unwrap();
        assert!(queue.len() <= SWEPT_LENGTH, "{}", queue.len());
    }
}
