//! A request's way to a hold: the local turn, then attempts at the server until one is granted,
//! the limit passes, or an error says that trying on is of no use.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::claim::{Attempt, Busy, Claim, Granted, Settle, Wait};
use crate::clock::{BootInstant, Clock};
use crate::error::{Error, ErrorKind, Result, Step};
use crate::mode::Mode;
use crate::name::LockName;
use crate::validity::Term;

use super::background::{Job, send_release};
use super::catch::catch_panic;
use super::hold::{Grant, Hold};
use super::parking::Spot;
use super::request::Options;
use super::shared::Shared;
use super::turns::{Entry, Passed, Pending, Turn, Want};

/// How long a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// One attempt.
    Once,
    /// Until then.
    At(BootInstant),
    None,
}

impl Limit {
    fn instant(self) -> BootInstant {
        match self {
            Self::At(instant) => instant,
            Self::Once | Self::None => BootInstant::FAR_FUTURE,
        }
    }
}

/// How long a failed attempt waits for the next: doubled each time, within these.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Tries so many times, with a pause in between.
pub(crate) async fn by_tries(
    shared: &Arc<Shared>,
    name: &LockName,
    options: &Options,
    tries: u32,
    pause: Duration,
) -> Result<Arc<Hold>> {
    for left in (0..tries).rev() {
        match acquire(shared, name, options, Limit::Once).await {
            Ok(Some(hold)) => return Ok(hold),
            Err(error) if left == 0 || !error.is_transient() => return Err(error),
            Ok(None) | Err(_) => {}
        }
        if left > 0 {
            shared.clock.sleep(spread(pause)).await;
            if shared.is_closed() {
                return Err(Error::closed());
            }
        }
    }
    Err(Error::timed_out(Step::Holder, name))
}

/// Gets a hold. `None` only if one attempt was all that was wanted, and it is held.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    name: &LockName,
    options: &Options,
    limit: Limit,
) -> Result<Option<Arc<Hold>>> {
    let begun = shared.clock.now();
    let mut turn = match options.mode {
        Mode::Exclusive => match local_turn(shared, name, options, limit).await? {
            Local::Turn(turn) => turn,
            Local::Entered(hold) => return Ok(Some(hold)),
            Local::Busy => return Ok(None),
        },
        Mode::Shared | Mode::Permits { .. } => Turn::beside_others(shared, name),
    };
    let claimed = claim(shared, &mut turn, name, options, limit, begun).await?;
    Ok(claimed.map(|(granted, believed)| into_hold(turn, options, granted, believed, begun)))
}

enum Local {
    Turn(Turn),
    Entered(Arc<Hold>),
    Busy,
}

async fn local_turn(
    shared: &Arc<Shared>,
    name: &LockName,
    options: &Options,
    limit: Limit,
) -> Result<Local> {
    let want = Want {
        mode: options.mode,
        ttl: options.ttl,
        upkeep: options.upkeep,
        owner: options.owner.clone(),
    };
    let passed = match shared.turns.enter(shared, name, &want, limit != Limit::Once)? {
        Entry::Turn(turn) => return Ok(Local::Turn(turn)),
        Entry::Busy => return Ok(Local::Busy),
        Entry::Entered(share) => Passed::Entered(share),
        Entry::Queued(receiver) => {
            shared.metrics.waited.add(1);
            // Closing turns away all who stand in the queue; whoever came just after that sees it
            // here.
            if shared.is_closed() {
                return Err(Error::closed());
            }
            match until(&shared.clock, limit.instant(), receiver).await {
                Some(Ok(passed)) => passed,
                Some(Err(_)) => return Err(Error::closed()),
                None => return Err(Error::timed_out(Step::LocalTurn, name)),
            }
        }
    };
    Ok(match passed {
        Passed::Turn(turn) => Local::Turn(turn),
        Passed::Entered(share) => Local::Entered(share.into_hold()),
    })
}

/// Asks the server until it grants. `None` only if one attempt was all that was wanted.
async fn claim(
    shared: &Arc<Shared>,
    turn: &mut Turn,
    name: &LockName,
    options: &Options,
    limit: Limit,
    begun: BootInstant,
) -> Result<Option<(Granted, Believed)>> {
    let mut start = if turn.pending.is_some() { shared.clock.now() } else { begun };
    let mut spot: Option<Spot<'_>> = None;
    let mut troubled_since = None;
    let mut pause = TRY_AGAIN.0;
    loop {
        if turn.pending.is_none() {
            turn.pending = Some(fresh(shared, turn.take_name(), options));
        }
        let Some(pending) = &mut turn.pending else { unreachable!("it was just made") };
        let wait = match (&spot, limit) {
            (None, _) | (_, Limit::Once) => Wait::No,
            (Some(_), limit) => Wait::Until(limit.instant()),
        };
        let answer = attempt(shared, pending, wait, limit, start).await;
        let next_try = match answer {
            Ok(Attempt::Granted(granted)) => {
                match believe(shared, &pending.claim, granted, start) {
                    Some(believed) => return Ok(Some((granted, believed))),
                    None => {
                        too_late(shared, turn).await;
                        if limit == Limit::Once {
                            return Err(Error::timed_out(Step::Answer, name));
                        }
                        NextTry::Fresh
                    }
                }
            }
            Ok(Attempt::Busy(busy)) => {
                pending.on_server = busy.queued || pending.settle == Settle::Unanswered;
                if limit == Limit::Once {
                    return Ok(None);
                }
                troubled_since = None;
                pause = TRY_AGAIN.0;
                if spot.is_none() {
                    // From here on no wake-up is missed; one that came before is made up for by
                    // asking again at once.
                    shared.metrics.waited.add(u64::from(start == begun));
                    spot = Some(shared.parking.park(name, pending.claim.token));
                    start = shared.clock.now();
                    if start >= limit.instant() {
                        return Err(Error::timed_out(Step::Holder, name));
                    }
                    continue;
                }
                NextTry::In(poll_after(shared, &busy))
            }
            Err(error) => {
                shared.metrics.attempts_failed.add(1);
                let ended = error.lost_reason().is_some();
                if limit == Limit::Once || !(ended || error.is_transient()) {
                    return Err(error);
                }
                let now = shared.clock.now();
                let since = *troubled_since.get_or_insert(now);
                if limit == Limit::None && now >= since + options.ttl {
                    return Err(error);
                }
                if now >= limit.instant() {
                    return Err(Error::timed_out(Step::Answer, name).with_source(error));
                }
                pause = (pause * 2).min(TRY_AGAIN.1);
                if ended {
                    // An operator broke it before its answer came, say. Nobody is ever granted
                    // this token again, so neither is whoever would inherit it.
                    drop(GivenBack { shared, pending: turn.take_pending() });
                    NextTry::Fresh
                } else {
                    NextTry::In(spread(pause))
                }
            }
        };
        match next_try {
            NextTry::Fresh => {
                // A hand-over is to one token, so the next one needs a spot of its own.
                spot = None;
                // A little later: what went wrong once for no fault of ours may do so again.
                let wake_at = shared.clock.now() + spread(TRY_AGAIN.0);
                shared.clock.sleep_until(wake_at.min(limit.instant())).await;
            }
            NextTry::In(time) => {
                let wake_at = shared.clock.now() + time;
                let woken = async {
                    match &spot {
                        Some(spot) => spot.woken().await,
                        None => std::future::pending().await,
                    }
                };
                until(&shared.clock, wake_at.min(limit.instant()), woken).await;
            }
        }
        if shared.is_closed() {
            return Err(Error::closed());
        }
        if let Some(spot) = &spot
            && let Some(granted) = spot.take_handed()
            && let Some(started) = granted.start
            && let Some(pending) = &mut turn.pending
        {
            pending.on_server = true;
            if let Some(believed) = believe(shared, &pending.claim, granted, started) {
                return Ok(Some((granted, believed)));
            }
            // Handed over too long ago to be believed: asking again confirms it.
        }
        start = shared.clock.now();
        if start >= limit.instant() {
            let step = if troubled_since.is_some() { Step::Answer } else { Step::Holder };
            return Err(Error::timed_out(step, name));
        }
    }
}

enum NextTry {
    /// Soon, with a new token.
    Fresh,
    /// When woken, or after this time.
    In(Duration),
}

fn fresh(shared: &Shared, name: LockName, options: &Options) -> Pending {
    let claim = Claim {
        name,
        mode: options.mode,
        token: shared.token(),
        identity: Arc::clone(&shared.identity),
        ttl: options.ttl,
        fences: 1,
        upkeep: options.upkeep,
    };
    Pending {
        claim,
        settle: Settle::Answered,
        on_server: false,
        last_sent: BootInstant::from_nanos(0),
    }
}

/// Sends one acquire and waits for its answer for as long as it could be of use.
async fn attempt(
    shared: &Shared,
    pending: &mut Pending,
    wait: Wait,
    limit: Limit,
    start: BootInstant,
) -> Result<Attempt> {
    let settled_before = std::mem::replace(&mut pending.settle, Settle::Unanswered);
    let stood_before = std::mem::replace(&mut pending.on_server, true);
    pending.last_sent = start;
    let answer = catch_panic(async { shared.backend.acquire(&pending.claim, wait).await });
    let ttl = pending.claim.ttl;
    let give_up_at = || {
        let useless = if shared.backend.profile().blocks && wait != Wait::No {
            BootInstant::FAR_FUTURE
        } else {
            shared.settings.rules.term(start, ttl, None).lost_at
        };
        useless.min(limit.instant())
    };
    let answer =
        first_poll_then_limit(&shared.clock, answer, give_up_at).await.unwrap_or_else(|| {
            Err(Error::indeterminate("the server did not answer the acquire in time"))
        });
    let known = match &answer {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::Indeterminate,
    };
    if !matches!(answer, Ok(Attempt::Granted(_))) {
        // Those that were granted are counted with the holds.
        shared.metrics.attempts.add(1);
    }
    if known {
        // What was left open before this attempt still is.
        pending.settle = settled_before;
        pending.on_server = answer.is_ok() || stood_before || settled_before == Settle::Unanswered;
    }
    answer
}

/// What is believed of a grant that came in time.
struct Believed {
    now: BootInstant,
    start: BootInstant,
    term: Term,
}

/// The term of a grant, if there is still some of it left.
fn believe(
    shared: &Shared,
    claim: &Claim,
    granted: Granted,
    sent: BootInstant,
) -> Option<Believed> {
    let now = shared.clock.now();
    // A backend may state a later start than the send, but not one in the future.
    let start = granted.start.unwrap_or(sent).min(now);
    let term = shared.settings.rules.term(start, claim.ttl, granted.valid);
    (now < term.lost_at).then_some(Believed { now, start, term })
}

/// A grant came when it was no longer of use: it is released, and a new token tries on. The old one
/// is never asked for again, however its release ends: that may arrive late, and would end what the
/// token holds by then.
async fn too_late(shared: &Arc<Shared>, turn: &mut Turn) {
    shared.metrics.grants_too_late.add(1);
    shared.metrics.attempts.add(1);
    let given_back = GivenBack { shared, pending: turn.take_pending() };
    given_back.release().await;
}

/// A claim that is given back; when that isn't certain, or is dropped, it goes on in the background.
struct GivenBack<'a> {
    shared: &'a Arc<Shared>,
    pending: Option<Pending>,
}

impl GivenBack<'_> {
    async fn release(mut self) {
        let Some(pending) = &self.pending else { return };
        let answer = send_release(self.shared, &pending.claim, pending.settle).await;
        if answer.is_ok() && self.shared.one_answer_settles(pending.settle) {
            self.pending = None;
        }
    }
}

impl Drop for GivenBack<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.shared.in_background(Job::settle(pending, false));
        }
    }
}

fn into_hold(
    turn: Turn,
    options: &Options,
    granted: Granted,
    believed: Believed,
    begun: BootInstant,
) -> Arc<Hold> {
    let Believed { now, start, term } = believed;
    let (shared, pending, has_turn) = turn.into_parts().expect("what was granted was claimed");
    let hold = Arc::new(Hold::new(
        shared,
        Grant {
            claim: pending.claim,
            fence: granted.fence,
            owner: options.owner.clone(),
            settle: pending.settle,
            granted_at: now,
            keep_until: options.keep_until(start),
            term,
            has_turn,
        },
    ));
    let shared = &hold.shared;
    if shared.registry.insert(
        &hold,
        hold.first_due(),
        now.as_nanos().saturating_sub(begun.as_nanos()),
    ) {
        shared.keeper.notify_one();
    }
    if has_turn {
        shared.turns.granted(&hold);
    }
    hold
}

/// When a waiting claim asks again, if nothing wakes it: when the holder's time is up, or slowly.
fn poll_after(shared: &Shared, busy: &Busy) -> Duration {
    let slowly = spread(shared.backend.profile().slow_poll);
    match busy.retry_after {
        // A little later than promised, and not all at once.
        Some(time) => slowly.min(time.saturating_add(spread(Duration::from_millis(4)))),
        None => slowly,
    }
}

/// `time`, give or take a quarter.
fn spread(time: Duration) -> Duration {
    let quarter = time / 4;
    let random = rand::random_range(0..=2_u32 * 1_024);
    (time - quarter).saturating_add(quarter / 1_024 * random)
}

/// Waits for `future` until `instant`. `None` when that has come first.
async fn until<F: Future>(clock: &Clock, instant: BootInstant, future: F) -> Option<F::Output> {
    if instant == BootInstant::FAR_FUTURE {
        return Some(future.await);
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = clock.sleep_until(instant) => None,
    }
}

/// As [`until`], but polls once before it sets up a timer, or even asks for the limit: a backend
/// that answers at once needs neither.
pub(crate) async fn first_poll_then_limit<F: Future>(
    clock: &Clock,
    future: F,
    instant: impl FnOnce() -> BootInstant,
) -> Option<F::Output> {
    let mut future = pin!(future);
    match first_poll(future.as_mut()).await {
        Poll::Ready(output) => Some(output),
        Poll::Pending => until(clock, instant(), future).await,
    }
}

async fn first_poll<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
