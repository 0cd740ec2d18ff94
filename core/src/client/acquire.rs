//! Attempts to acquire a lock. [`begin`] makes the first without a future: a large future would
//! slow down a backend in this process.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::{
    AcquireOutcome, BootInstant, Busy, Claim, Error, ErrorKind, Granted, LockName, Mode, Result,
    Step, Wait, WakeUp,
};

use super::pending::Before;
use super::state::hold::Grant;
use super::state::local_queue::Entry;
use super::state::releasing::{Releasing, Use, end_in_background};
use super::state::{Entered, Passed, Turn};
use super::waiters::WaiterSlot;
use super::{Hold, Limit, Options, Pending, Shared, answer, at_once, span, until};

/// The shortest and longest pause after a failed attempt.
pub(super) const TRY_AGAIN: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));

pub(crate) async fn by_tries(
    shared: Arc<Shared>,
    name: LockName,
    options: &Options,
    tries: u32,
    pause: Duration,
) -> Result<Arc<Hold>> {
    let (mut step, mut is_in_doubt) = (Step::Holder, false);
    for left in (0..tries).rev() {
        // This call yields at times: with a zero `pause`, the loop might never yield.
        tokio::task::consume_budget().await;
        let is_local = shared.table().turns.is_taken(&name);
        step = if is_local { Step::LocalTurn } else { Step::Holder };
        match acquire(Arc::clone(&shared), name.clone(), options, Limit::Once).await {
            Ok(Some(hold)) => return Ok(hold),
            Err(error) if left == 0 || !error.is_transient() => {
                shared.metrics.timed_out.add(u64::from(error.is_timed_out()));
                return Err(if is_in_doubt { doubted(error) } else { error });
            }
            Err(error) => is_in_doubt |= error.kind() == ErrorKind::Indeterminate,
            Ok(None) => {}
        }
        if left > 0 {
            let pause = async {
                shared.clock.sleep(shared.spread(pause)).await;
                Ok(())
            };
            shared.unless_closed(pause).await.map_err(|error| shared.with_context(error, &name))?;
        }
    }
    shared.metrics.timed_out.add(1);
    Err(shared.with_context(Error::timed_out(step, &name), &name))
}

/// The future of an acquire. `None` only if a single attempt found the lock held.
pub(crate) enum Acquiring<'a> {
    Done(Option<Acquired>),
    Waiting(Pin<Box<dyn Future<Output = Acquired> + Send + 'a>>),
}

type Acquired = Result<Option<Arc<Hold>>>;

impl Future for Acquiring<'_> {
    type Output = Acquired;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Done(done) => Poll::Ready(done.take().expect("polled after it was done")),
            Self::Waiting(rest) => rest.as_mut().poll(cx),
        }
    }
}

pub(crate) fn acquire(
    shared: Arc<Shared>,
    name: LockName,
    options: &Options,
    limit: Limit,
) -> Acquiring<'_> {
    let begun = shared.clock.now();
    match begin(shared, name, options, limit, begun) {
        Begun::Done(hold) => Acquiring::Done(Some(hold.map(admitted).transpose())),
        Begun::Failed(error) => Acquiring::Done(Some(Err(error))),
        Begun::Waiting(state) => {
            Acquiring::Waiting(Box::pin(span::in_current_span(go_on(state, options, limit, begun))))
        }
    }
}

/// Returns the hold, or releases it if the client is closed or has no runtime.
pub(crate) fn admitted(hold: Arc<Hold>) -> Result<Arc<Hold>> {
    match hold.shared.ready() {
        Ok(()) => Ok(hold),
        Err(error) => Err(not_admitted(hold, error)),
    }
}

#[cold]
fn not_admitted(hold: Arc<Hold>, error: Error) -> Error {
    let error = hold.error(error);
    end_in_background(hold, Use::None);
    error
}

enum Begun {
    Done(Option<Arc<Hold>>),
    Failed(Error),
    Waiting(AcquireState),
}

enum AcquireState {
    Queued(Arc<Shared>, LockName, oneshot::Receiver<Passed>),
    /// The turn, and a warm hold to release before the first request.
    Releasing(Box<(Turn, Releasing)>),
    Unasked(Turn),
    Asked(Turn, Answer),
}

fn begin(
    shared: Arc<Shared>,
    name: LockName,
    options: &Options,
    limit: Limit,
    begun: BootInstant,
) -> Begun {
    // Inside the `match`, the call would keep the table locked until the arms' end.
    let entry = shared.table().turns.enter(&name, options, limit != Limit::Once, begun);
    let mut turn = match entry {
        Ok(Entry::Turn) => Turn::taken(shared, name),
        Ok(Entry::NoTurn) => Turn::placeholder(shared, name),
        Ok(Entry::Entered(share)) => return Begun::Done(Some(share.into_hold())),
        Ok(Entry::Warm(hold)) => return use_or_release_warm(hold, name, options, limit, begun),
        Ok(Entry::Busy) => return Begun::Done(None),
        Ok(Entry::Queued(receiver)) => {
            return Begun::Waiting(AcquireState::Queued(shared, name, receiver));
        }
        Err(error) => return Begun::Failed(failed(&shared, error, &name, limit)),
    };
    match ask_at_once(&mut turn, options, begun) {
        None => Begun::Waiting(AcquireState::Unasked(turn)),
        Some(Answer::Granted(grant)) => {
            Begun::Done(Some(into_hold(&mut turn, options, grant, begun)))
        }
        Some(Answer::Busy(_)) if limit == Limit::Once => Begun::Done(None),
        Some(answer) => Begun::Waiting(AcquireState::Asked(turn, answer)),
    }
}

fn use_or_release_warm(
    hold: Arc<Hold>,
    name: LockName,
    options: &Options,
    limit: Limit,
    now: BootInstant,
) -> Begun {
    if hold.give_to(options, now) {
        hold.shared.metrics.count_hand_over(Duration::ZERO);
        return Begun::Done(Some(hold));
    }
    let turn = match options.mode {
        Mode::Exclusive => match Turn::taken_from(&hold, &name) {
            Some(turn) => turn,
            // The background release will pass the turn on.
            None => return begin(Arc::clone(&hold.shared), name, options, limit, now),
        },
        _ => Turn::placeholder(Arc::clone(&hold.shared), name),
    };
    Begun::Waiting(AcquireState::Releasing(Box::new((
        turn,
        Releasing::begin(hold, now, Use::None),
    ))))
}

// Without `inline`, an uncontended acquire has 40 more instructions.
#[inline(always)]
fn ask_at_once(turn: &mut Turn, options: &Options, now: BootInstant) -> Option<Answer> {
    let (shared, pending) = turn.claim(options, now);
    let before = pending.send(now);
    let Some(answer) = at_once(|| shared.backend.acquire_at_once(&pending.claim, now)) else {
        pending.undo_send(before);
        return None;
    };
    Some(take_answer(shared, pending, before, answer, now))
}

#[cold]
fn failed(shared: &Shared, error: Error, name: &LockName, limit: Limit) -> Error {
    if error.is_timed_out() && limit != Limit::Once {
        shared.metrics.timed_out.add(1);
    }
    shared.with_context(error, name)
}

async fn in_queue(
    shared: &Shared,
    name: &LockName,
    mut receiver: oneshot::Receiver<Passed>,
    limit: Limit,
    ttl: Duration,
    begun: BootInstant,
) -> Result<Passed> {
    shared.metrics.waited.add(1);
    loop {
        let mut troubled = pin!(shared.trouble.notified());
        troubled.as_mut().enable();
        let trouble = shared.table().turns.trouble(name).cloned();
        // Without a limit, this request fails only one TTL after a request ahead began to fail.
        let look_at = match &trouble {
            Some(trouble) if limit == Limit::None => trouble.since.max(begun) + ttl,
            _ => limit.instant(),
        };
        let now = shared.clock.now();
        if now >= look_at {
            let timed_out = |step| Error::timed_out(step, name);
            return Err(match trouble {
                None => timed_out(Step::LocalTurn),
                Some(trouble) if limit == Limit::None => trouble.error(now),
                Some(trouble) => timed_out(Step::Answer).with_source(trouble.error(now)),
            });
        }
        let passed = async {
            tokio::select! {
                biased;
                passed = &mut receiver => Some(passed),
                () = troubled => None,
            }
        };
        match until(&shared.clock, look_at, passed).await.flatten() {
            Some(Ok(passed)) => return Ok(passed),
            Some(Err(_)) => return Err(Error::closed()),
            None => {}
        }
    }
}

pub(super) enum Answer {
    Granted(Grant),
    TooLate,
    Busy(Busy),
    Failed(Error),
}

pub(super) fn take_answer(
    shared: &Shared,
    pending: &mut Pending,
    before: Before,
    answer: Result<AcquireOutcome>,
    sent: BootInstant,
) -> Answer {
    match answer {
        Ok(AcquireOutcome::Granted(granted)) => {
            pending.release_mode = before.release_mode;
            valid_grant(shared, &pending.claim, granted, sent)
                .map_or(Answer::TooLate, Answer::Granted)
        }
        Ok(AcquireOutcome::Busy(busy)) => {
            shared.metrics.attempts.add(1);
            pending.release_mode = before.release_mode;
            // Even if `busy.queued` is false, an earlier request may have queued the claim.
            pending.on_server = busy.queued || before.on_server;
            Answer::Busy(busy)
        }
        Err(error) => {
            shared.metrics.attempts.add(1);
            if error.kind() != ErrorKind::Indeterminate {
                pending.undo_send(before);
            }
            Answer::Failed(error)
        }
    }
}

async fn go_on(
    state: AcquireState,
    options: &Options,
    limit: Limit,
    begun: BootInstant,
) -> Acquired {
    let (shared, name) = match &state {
        AcquireState::Queued(shared, name, _) => (Arc::clone(shared), name.clone()),
        AcquireState::Releasing(it) => (Arc::clone(it.0.shared()), it.0.name().clone()),
        AcquireState::Unasked(turn) | AcquireState::Asked(turn, _) => {
            (Arc::clone(turn.shared()), turn.name().clone())
        }
    };
    let _waiting = shared.count_waiting();
    // Pin the future here: each move would add a copy to its size.
    let waiting = pin!(waiting(state, options, limit, begun));
    match shared.until_closed(waiting).await {
        Ok(hold) => hold.map(admitted).transpose(),
        Err(error) => Err(failed(&shared, error, &name, limit)),
    }
}

async fn waiting(
    state: AcquireState,
    options: &Options,
    limit: Limit,
    begun: BootInstant,
) -> Acquired {
    let (mut sent, mut trouble, mut was_queued) = (begun, None, false);
    let (mut turn, answer) = match state {
        AcquireState::Asked(turn, answer) => (turn, Some(answer)),
        AcquireState::Unasked(turn) => (turn, None),
        AcquireState::Releasing(it) => {
            let (turn, releasing) = *it;
            // An unanswered release continues in the background.
            let clock = turn.shared().clock.clone();
            let _ = until(&clock, limit.instant(), pin!(releasing.send())).await;
            sent = clock.now();
            if sent >= limit.instant() {
                return Err(Error::timed_out(Step::Answer, turn.name()));
            }
            (turn, None)
        }
        AcquireState::Queued(shared, name, receiver) => {
            match in_queue(&shared, &name, receiver, limit, options.ttl, begun).await? {
                Passed::Turn(mut turn) => {
                    (sent, was_queued) = (shared.clock.now(), true);
                    trouble = shared.table().turns.trouble(&name).cloned();
                    // Send only a new claim at once: at this attempt's `Wait::No`, the server may
                    // remove a queued claim.
                    let is_new = turn.pending.is_none();
                    let answer = is_new.then(|| ask_at_once(&mut turn, options, sent)).flatten();
                    (turn, answer)
                }
                Passed::HandedOver(share) => {
                    let now = shared.clock.now();
                    if let Some(hold) = share.into_sound_hold(now) {
                        shared.metrics.count_hand_over(now.saturating_since(begun));
                        return Ok(Some(hold));
                    }
                    return match begin(shared, name, options, limit, begun) {
                        Begun::Done(hold) => Ok(hold),
                        Begun::Failed(error) => Err(error),
                        Begun::Waiting(state) => {
                            Box::pin(waiting(state, options, limit, begun)).await
                        }
                    };
                }
                Passed::Entered(share) => return Ok(Some(share.into_hold())),
                Passed::Refused(error) => return Err(error),
            }
        }
    };
    let shared = Arc::clone(turn.shared());
    let mut attempts = Attempts {
        shared: &shared,
        options,
        limit,
        begun,
        first_sent: sent,
        sent,
        counted: was_queued,
        spot: None,
        troubled_since: trouble.as_ref().map(|trouble| trouble.since.max(begun)),
        trouble: trouble.map(|trouble| trouble.error(sent)),
        pause: TRY_AGAIN.0,
    };
    let answer = match answer {
        Some(answer) => answer,
        None => {
            attempts.queue_at_once(&mut turn);
            attempts.ask(&mut turn).await
        }
    };
    if limit == Limit::Once && matches!(answer, Answer::Busy(_)) {
        return Ok(None);
    }
    attempts.until_granted(&mut turn, answer).await.map(Some)
}

/// Makes an `Unavailable` or `Denied` error indeterminate, because an earlier attempt may have had
/// an effect.
pub(crate) fn doubted(error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied) {
        return error;
    }
    let message = "an earlier attempt was not answered, so it may have had an effect";
    Error::indeterminate(message).with_source(error)
}

struct Attempts<'a> {
    shared: &'a Arc<Shared>,
    options: &'a Options,
    limit: Limit,
    begun: BootInstant,
    first_sent: BootInstant,
    sent: BootInstant,
    counted: bool,
    spot: Option<WaiterSlot<'a>>,
    troubled_since: Option<BootInstant>,
    trouble: Option<Error>,
    pause: Duration,
}

enum Next {
    Now,
    Fresh,
    In(Duration),
}

impl Attempts<'_> {
    async fn until_granted(&mut self, turn: &mut Turn, mut answer: Answer) -> Result<Arc<Hold>> {
        loop {
            let next = match answer {
                Answer::Granted(grant) => return Ok(self.granted(turn, grant)),
                Answer::TooLate => {
                    Box::pin(self.too_late(turn)).await;
                    if self.limit == Limit::Once {
                        return Err(Error::timed_out(Step::Answer, turn.name()));
                    }
                    Next::Fresh
                }
                Answer::Busy(busy) => self.after_busy(turn, &busy),
                Answer::Failed(error) => self.after_error(turn, error)?,
            };
            self.wait(&next).await;
            if let Some(grant) = self.take_handed(turn) {
                return Ok(self.granted(turn, grant));
            }
            self.sent = self.shared.clock.now();
            if let Some(share) = self.enter_again(turn.name())? {
                return Ok(share.into_hold());
            }
            if self.sent >= self.give_up_at() {
                return Err(self.given_up(turn));
            }
            answer = self.ask(turn).await;
        }
    }

    fn enter_again(&self, name: &LockName) -> Result<Option<Entered>> {
        if self.options.owner.is_none() {
            return Ok(None);
        }
        match self.shared.table().turns.enter_shared(name, self.options, self.sent)? {
            Entry::Entered(share) => Ok(Some(share)),
            _ => Ok(None),
        }
    }

    async fn ask(&self, turn: &mut Turn) -> Answer {
        let (shared, pending) = turn.claim(self.options, self.sent);
        let before = pending.send(self.sent);
        let claim = &pending.claim;
        let wait = match &self.spot {
            None => Wait::No,
            Some(_) => Wait::Until(self.limit.instant()),
        };
        let answer_by = match self.is_blocked() {
            true => self.limit.instant(),
            false => shared.term(self.sent, claim.ttl, None).lost_at.min(self.give_up_at()),
        };
        let send = || shared.backend.acquire(claim, wait);
        let answer = answer(shared, send, answer_by, "the acquire").await;
        take_answer(shared, pending, before, answer, self.sent)
    }

    /// Registers a waiter before the first request if the backend prefers this or the lock is
    /// probably held, so that the server queues this claim at once.
    fn queue_at_once(&mut self, turn: &mut Turn) {
        let was_busy = || self.shared.was_busy(turn.name(), self.sent, self.options.ttl);
        if self.limit != Limit::Once
            && (self.shared.backend.profile().queues_at_once
                || turn.pending.as_ref().is_some_and(|pending| pending.on_server)
                || was_busy())
        {
            let (_, pending) = turn.claim(self.options, self.sent);
            let claim = &pending.claim;
            self.spot = Some(self.shared.waiters.register(&claim.name, claim.token));
        }
    }

    fn is_blocked(&self) -> bool {
        self.spot.is_some() && self.shared.backend.profile().blocks
    }

    fn give_up_at(&self) -> BootInstant {
        match (self.limit, self.troubled_since) {
            (Limit::None, Some(since)) => since + self.options.ttl,
            (limit, _) => limit.instant(),
        }
    }

    fn given_up(&mut self, turn: &Turn) -> Error {
        match (self.trouble.take(), self.troubled_since) {
            (Some(trouble), Some(since)) if self.limit == Limit::None => {
                turn.doubted(trouble).tried_for(self.shared.clock.now().saturating_since(since))
            }
            (Some(trouble), _) => Error::timed_out(Step::Answer, turn.name()).with_source(trouble),
            (None, _) => Error::timed_out(Step::Holder, turn.name()),
        }
    }

    fn granted(&mut self, turn: &mut Turn, grant: Grant) -> Arc<Hold> {
        self.answered(turn);
        into_hold(turn, self.options, grant, self.begun)
    }

    fn answered(&mut self, turn: &Turn) {
        self.trouble = None;
        if self.troubled_since.take().is_some() {
            turn.note_answer();
        }
    }

    fn after_busy(&mut self, turn: &Turn, busy: &Busy) -> Next {
        self.answered(turn);
        self.pause = TRY_AGAIN.0;
        if !std::mem::replace(&mut self.counted, true) {
            self.shared.metrics.waited.add(1);
        }
        self.shared.note_busy(turn.name());
        if self.spot.is_some() {
            let waited = self.sent.saturating_since(self.first_sent);
            return Next::In(poll_after(self.shared, busy, waited));
        }
        // The registration may have missed a wake-up.
        let Some(pending) = &turn.pending else { unreachable!("a claim was busy") };
        self.spot = Some(self.shared.waiters.register(&pending.claim.name, pending.claim.token));
        Next::Now
    }

    fn after_error(&mut self, turn: &mut Turn, error: Error) -> Result<Next> {
        let shared = self.shared;
        shared.metrics.attempts_failed.add(1);
        let ended = error.lost_reason().is_some();
        if !(ended || error.is_transient()) {
            return Err(turn.doubted(error));
        }
        let now = shared.clock.now();
        // A blocking server answers only after the grant or the limit.
        let is_blocked = self.is_blocked();
        let unanswered_since = if is_blocked { now } else { self.sent };
        let since = *self.troubled_since.get_or_insert(unanswered_since);
        if is_blocked {
            // Without a `spot`, the next request doesn't block, so a working server answers it
            // soon.
            self.spot = None;
        }
        turn.note_trouble(since, &error);
        if self.limit == Limit::Once {
            return Err(error);
        }
        // If the claim ended or the limit passed, keep an earlier error, which is the cause.
        let is_cut_short = now >= self.give_up_at();
        let trouble = match self.trouble.take() {
            Some(earlier) if ended || is_cut_short => earlier,
            _ => error,
        };
        self.trouble = Some(trouble);
        if is_cut_short {
            return Err(self.given_up(turn));
        }
        self.pause = (self.pause * 2).min(TRY_AGAIN.1);
        if !ended {
            return Ok(Next::In(shared.spread(self.pause)));
        }
        // The server never grants this token again. The claim may have left a record, such as a
        // ZooKeeper node, so it is released.
        if let Some(pending) = &mut turn.pending {
            pending.on_server = true;
        }
        drop(turn.give_back());
        Ok(Next::Fresh)
    }

    /// Releases a late grant, and waits for the release at most until the limit. The next attempt
    /// needs a new token: a delayed release ends any hold of the old one.
    async fn too_late(&mut self, turn: &mut Turn) {
        self.shared.metrics.grants_too_late.add(1);
        self.shared.metrics.attempts.add(1);
        let late = || Error::indeterminate("the answer with a grant came too late");
        self.trouble.get_or_insert_with(late);
        let releasing = pin!(turn.give_back().release());
        let _ = until(&self.shared.clock, self.give_up_at(), releasing).await;
    }

    async fn wait(&mut self, next: &Next) {
        let clock = &self.shared.clock;
        let give_up_at = self.give_up_at();
        let at_most = |time| (clock.now() + time).min(give_up_at);
        match next {
            Next::Now => {}
            Next::Fresh => {
                // The waiter was registered for the old token.
                self.spot = None;
                clock.sleep_until(at_most(self.shared.spread(TRY_AGAIN.0))).await;
            }
            Next::In(time) => match &self.spot {
                Some(spot) => drop(until(clock, at_most(*time), spot.waiter.woken()).await),
                None => clock.sleep_until(at_most(*time)).await,
            },
        }
    }

    /// Returns the grant that an event delivered, if still valid. Otherwise the next request
    /// repeats the claim.
    fn take_handed(&self, turn: &mut Turn) -> Option<Grant> {
        let granted = self.spot.as_ref()?.waiter.take_handed()?;
        let started = granted.start?;
        let pending = turn.pending.as_mut()?;
        pending.on_server = true;
        valid_grant(self.shared, &pending.claim, granted, started)
    }
}

fn valid_grant(
    shared: &Shared,
    claim: &Claim,
    granted: Granted,
    sent: BootInstant,
) -> Option<Grant> {
    let now = shared.clock.now();
    let start = granted.start.unwrap_or(sent).min(now);
    let term = shared.term(start, claim.ttl, granted.valid);
    let Granted { fence, fences, waiters, .. } = granted;
    (now < term.lost_at).then_some(Grant { fence, fences, waiters, now, start, term })
}

pub(super) fn into_hold(
    turn: &mut Turn,
    options: &Options,
    grant: Grant,
    begun: BootInstant,
) -> Arc<Hold> {
    let waited = grant.now.as_nanos().saturating_sub(begun.as_nanos());
    let (shared, pending, has_turn) = turn.take_parts().expect("what was granted was claimed");
    let hold = Arc::new(Hold::new(shared, pending, options, grant, has_turn));
    Shared::take_in(&hold, waited);
    hold
}

/// Returns the pause before the next poll. Without wake-ups, pauses grow up to `slow_poll`; the
/// first are short, to notice the end of a short hold.
fn poll_after(shared: &Shared, busy: &Busy, waited: Duration) -> Duration {
    let profile = shared.backend.profile();
    let interval = match profile.wake_up {
        WakeUp::Poll => (waited / 8).clamp(profile.slow_poll / 32, profile.slow_poll),
        WakeUp::Push => profile.slow_poll,
    };
    let interval = shared.spread(interval);
    match busy.retry_after {
        Some(time) => interval.min(time.saturating_add(shared.spread(Duration::from_millis(4)))),
        None => interval,
    }
}
