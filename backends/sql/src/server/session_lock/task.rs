//! A claim's task, which owns the session from acquire to release.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Claim, Error, ErrorKind, Granted, Holder, Mode,
    ReleaseOutcome, RenewalOutcome, Result, Wait,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::withdraw::LIMIT;
use super::{
    Command, Ended, EngineState, Grant, Hold, HoldSession, Holding, Live, Locked, Place, Server,
    Session, Sessions, Turn, joint_session, withdraw,
};
use crate::server::pool::doubted;
use crate::server::{Effect, Use, errors};

/// The longest wait in one statement, and so the longest delay by a dead client's wait.
const LONGEST_SLICE: Duration = Duration::from_secs(5);

/// A wait ends this long before its limit, to reject in time.
const EARLY: Duration = Duration::from_millis(25);

const PAUSE: Duration = Duration::from_millis(100);

/// After a shorter wait, the hold needs no renewal before the grant.
const SHORT_WAIT: Duration = Duration::from_millis(100);

const JUST_NOW: Duration = Duration::from_millis(1);

/// The least limit for an attempt, because a slow server may need more than a short TTL.
const LEAST_TRY: Duration = Duration::from_millis(500);

pub(super) struct Task<S: Server> {
    pub(super) state: Arc<EngineState<S>>,
    pub(super) claim: Claim,
    pub(super) place: Place<S>,
    pub(super) inbox: Inbox,
}

pub(super) struct Inbox {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) closing: watch::Receiver<()>,
    pub(super) answer: Option<oneshot::Sender<Result<AcquireOutcome>>>,
    pub(super) others: Vec<oneshot::Sender<Result<AcquireOutcome>>>,
}

pub(super) enum Withdrawn {
    Unwanted,
    Released(oneshot::Sender<Result<ReleaseOutcome>>),
    Closing,
}

enum Asked<S: Server> {
    Granted(Hold<S>),
    CarriedElsewhere(Granted),
    Busy,
    Withdrawn(Withdrawn),
}

impl Inbox {
    pub(super) async fn withdrawn(&mut self) -> Withdrawn {
        loop {
            let unwanted = async {
                match &mut self.answer {
                    Some(answer) => answer.closed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.closing.changed() => return Withdrawn::Closing,
                command = self.commands.recv() => match command {
                    Some(Command::Acquire(Wait::No, answer)) => {
                        let _ = answer.send(Ok(AcquireOutcome::Busy(Busy::default())));
                    }
                    Some(Command::Acquire(Wait::Until(_), answer)) => self.others.push(answer),
                    Some(Command::Renew(answer)) => {
                        let _ = answer.send(RenewalOutcome::Indeterminate);
                    }
                    Some(Command::Release(answer)) => return Withdrawn::Released(answer),
                    None => return Withdrawn::Closing,
                },
                () = unwanted => return Withdrawn::Unwanted,
            }
        }
    }

    fn send_granted(&mut self, granted: Granted) -> bool {
        let answers = self.answer.take().into_iter().chain(self.others.drain(..));
        let was_received =
            answers.map(|answer| answer.send(Ok(AcquireOutcome::Granted(granted))).is_ok());
        // `any` would stop at the first success, but each caller must get the grant.
        was_received.fold(false, |any, was_received| any | was_received)
    }
}

impl<S: Server> Task<S> {
    pub(super) async fn run(mut self, wait: Wait) {
        let asked = self.ask(wait).await;
        let Self { state, claim, place, mut inbox } = self;
        match asked {
            Ok(Asked::Granted(hold)) => {
                let granted = hold.granted();
                place.is_recorded.store(!hold.is_recorded_later, Ordering::Relaxed);
                let live = Live::new(&state, &claim);
                let was_received = inbox.send_granted(granted);
                Holding { live, state, claim, place, inbox, hold }.run(was_received).await;
            }
            Ok(Asked::CarriedElsewhere(granted)) => {
                drop(place);
                inbox.send_granted(granted);
            }
            Ok(Asked::Busy) | Err(_) => {
                drop(place);
                if let Some(answer) = inbox.answer.take() {
                    let _ = answer.send(asked.map(|_| AcquireOutcome::Busy(Busy::default())));
                }
            }
            Ok(Asked::Withdrawn(Withdrawn::Released(answer))) => {
                drop(place);
                let _ = answer.send(Ok(ReleaseOutcome::Released));
            }
            Ok(Asked::Withdrawn(Withdrawn::Unwanted | Withdrawn::Closing)) => {}
        }
    }

    async fn ask(&mut self, wait: Wait) -> Result<Asked<S>> {
        let Self { state, claim, inbox, .. } = self;
        let _turn: Option<Turn> = match wait {
            Wait::No => None,
            Wait::Until(limit) => tokio::select! {
                biased;
                why = inbox.withdrawn() => return Ok(Asked::Withdrawn(why)),
                turn = state.queues.enter(&claim.name) => Some(turn),
                () = state.clock.sleep_until(limit) => return Ok(Asked::Busy),
            },
        };
        if claim.mode == Mode::Exclusive
            && state.is_crowded()
            && let Some(asked) = Box::pin(joined(state, claim, inbox, wait)).await?
        {
            return Ok(asked);
        }
        let (mut session, mut used) = tokio::select! {
            biased;
            why = inbox.withdrawn() => return Ok(Asked::Withdrawn(why)),
            session = live_session(state, claim, Use::Hold) => session?,
        };
        let mut tries = 0;
        let mut may_have_been_late = false;
        loop {
            let left = match wait {
                Wait::No => Duration::ZERO,
                Wait::Until(limit) => limit.saturating_since(state.clock.now()),
            };
            let slice = (left > EARLY).then(|| (left - EARLY).min(claim.ttl).min(LONGEST_SLICE));
            if slice.is_none() && tries > 0 {
                give_back(state, session).await;
                return Ok(Asked::Busy);
            }
            tries += 1;
            let last = slice.is_some_and(|slice| slice + EARLY >= left);
            let sent = state.clock.now();
            let locked = {
                let id = session.id();
                let limit = lock_limit(claim, slice, state.server.pool.limits().answer);
                let mut locking = pin!(session.lock(claim, slice, last));
                tokio::select! {
                    biased;
                    locked = &mut locking => Ok(locked),
                    why = inbox.withdrawn() => {
                        let quiet = withdraw::from_wait(&state.server, id, locking).await;
                        Err((why, quiet))
                    }
                    () = tokio::time::sleep(limit) => {
                        let backend = state.server.profile.backend;
                        Ok(Err(errors::timed_out(Effect::Changes, limit, backend)))
                    }
                }
            };
            let locked = match locked {
                Ok(locked) => locked,
                Err((why, quiet)) => {
                    return Ok(given_up(state, claim, HoldSession::Own(session), quiet, why).await);
                }
            };
            match locked {
                Ok(Locked::Yes(grant)) => {
                    let seat = HoldSession::Own(session);
                    return granted(state, claim, seat, grant, slice.is_some(), sent).await;
                }
                Ok(Locked::No { same_token }) => {
                    let carried = match same_token {
                        true => carried_elsewhere(&state.server, claim).await,
                        false => Ok(None),
                    };
                    let carried = carried.map_err(|error| doubted(error, may_have_been_late))?;
                    if let Some(granted) = carried {
                        give_back(state, session).await;
                        return Ok(Asked::CarriedElsewhere(granted));
                    }
                    if std::mem::take(&mut may_have_been_late) {
                        // The closed session's late statement may have acquired the lock. `release`
                        // ends all sessions with the claim's lock, so `session` must release that
                        // first.
                        let left = tokio::time::timeout(LIMIT, session.leave()).await;
                        let backend = state.server.profile.backend;
                        let late = |_| Err(errors::timed_out(Effect::Changes, LIMIT, backend));
                        if let Err(error) = left.unwrap_or_else(late) {
                            let seat = HoldSession::Own(session);
                            return Err(withdraw::failed(&state.server, claim, seat, error).await);
                        }
                        let released = Box::pin(state.server.release(claim)).await;
                        released.map_err(|error| doubted(error, true))?;
                        tries = 0;
                        continue;
                    }
                    if same_token && slice.is_some() {
                        // The server may still list an abandoned attempt's session.
                        tokio::select! {
                            biased;
                            why = inbox.withdrawn() => {
                                let seat = HoldSession::Own(session);
                                return Ok(given_up(state, claim, seat, false, why).await);
                            }
                            () = tokio::time::sleep(PAUSE.min(left)) => {}
                        }
                    }
                }
                Err(error) if used => {
                    // The idle connection was dead, but its session may have acquired the lock.
                    tracing::debug!(%error, "an idle session had ended");
                    tries = 0;
                    // After a definite error, the session needn't be ended.
                    let quiet = error.kind() != ErrorKind::Indeterminate;
                    let seat = HoldSession::Own(session);
                    let closed = Box::pin(withdraw::close(&state.server, claim, seat, quiet)).await;
                    Box::pin(state.close_idle(true)).await;
                    // If the server didn't find the session, its statement may still acquire the
                    // lock.
                    may_have_been_late = !closed.map_err(|unknown| unknown.with_source(error))?;
                    let next = live_session(state, claim, Use::Hold).await;
                    (session, used) = next.map_err(|error| doubted(error, may_have_been_late))?;
                }
                Err(error) => {
                    let seat = HoldSession::Own(session);
                    return Err(withdraw::failed(&state.server, claim, seat, error).await);
                }
            }
        }
    }
}

/// Tries the lock in a joint session. Returns `None` if the claim needs its own session.
async fn joined<S: Server>(
    state: &Arc<EngineState<S>>,
    claim: &Claim,
    inbox: &mut Inbox,
    wait: Wait,
) -> Result<Option<Asked<S>>> {
    loop {
        let slot = tokio::select! {
            biased;
            why = inbox.withdrawn() => return Ok(Some(Asked::Withdrawn(why))),
            slot = joint_session::slot(state, claim) => slot?,
        };
        let mut locking = pin!(slot.lock(claim));
        let (joined, withdrawn) = tokio::select! {
            biased;
            joined = &mut locking => (joined, None),
            // The attempt ends soon, and may have to be undone.
            why = inbox.withdrawn() => (locking.await, Some(why)),
        };
        let asked = match (joined.transpose()?, withdrawn) {
            (Some((Locked::Yes(_), _, member)), Some(why)) => {
                given_up(state, claim, HoldSession::Joint(member), false, why).await
            }
            (_, Some(why)) => Asked::Withdrawn(why),
            (Some((Locked::Yes(grant), sent, member)), None) => {
                granted(state, claim, HoldSession::Joint(member), grant, false, sent).await?
            }
            (Some((Locked::No { same_token: false }, ..)), None) if wait == Wait::No => Asked::Busy,
            (Some(_), None) => return Ok(None),
            (None, None) => continue,
        };
        return Ok(Some(asked));
    }
}

fn lock_limit(claim: &Claim, slice: Option<Duration>, answer: Duration) -> Duration {
    match slice {
        // The statement may wait twice: at the barrier and for the lock.
        Some(slice) => slice * 2 + answer,
        None => answer.min(claim.patience().max(LEAST_TRY)),
    }
}

async fn given_up<S: Server>(
    state: &EngineState<S>,
    claim: &Claim,
    session: HoldSession<S>,
    quiet: bool,
    why: Withdrawn,
) -> Asked<S> {
    let closed = Box::pin(withdraw::close(&state.server, claim, session, quiet)).await;
    Asked::Withdrawn(match (why, closed) {
        (Withdrawn::Released(answer), Err(error)) => {
            let _ = answer.send(Err(error));
            Withdrawn::Unwanted
        }
        (why, _) => why,
    })
}

async fn give_back<S: Server>(state: &Arc<EngineState<S>>, mut session: S::Session) {
    match tokio::time::timeout(LIMIT, session.leave()).await {
        Ok(Ok(())) => state.put_back(session).await,
        Ok(Err(_)) | Err(_) => session.close().await,
    }
}

pub(super) async fn live_session<S: Server>(
    state: &EngineState<S>,
    claim: &Claim,
    of: Use,
) -> Result<(S::Session, bool)> {
    loop {
        let (mut session, idle_since) = state.session(claim, of).await?;
        // A session used just now is probably alive. If not, the next statement fails.
        let is_probably_alive = idle_since.is_none_or(|since| since.elapsed() < JUST_NOW);
        if is_probably_alive || session.ended().now_or_never() != Some(Ended::Session) {
            return Ok((session, idle_since.is_some()));
        }
        session.close().await;
    }
}

async fn granted<S: Server>(
    state: &Arc<EngineState<S>>,
    claim: &Claim,
    mut session: HoldSession<S>,
    grant: Grant,
    may_have_blocked: bool,
    sent: BootInstant,
) -> Result<Asked<S>> {
    let begun = state.clock.now();
    let short = SHORT_WAIT.min(claim.ttl / 10);
    let has_waited = may_have_blocked && begun.saturating_since(sent) > short;
    let id = session.id();
    let limit = LIMIT.min(claim.ttl);
    let noting = async {
        if let (Some(fence), true) = (grant.fence, grant.is_recorded_later) {
            return Ok(fence);
        }
        let noting = Box::pin(state.server.note(claim, id, grant.fence));
        match tokio::time::timeout(limit, noting).await {
            Ok(Ok(Some(fence))) => Ok(fence),
            Ok(Ok(None)) => Err(Error::unavailable(
                "the session with the lock ended before the hold was recorded; a longer TTL gives a \
                 slow server more time",
            )),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::indeterminate("the server didn't record the hold in time")),
        }
    };
    // If the server's clock was set ahead during the wait, the measured wait is too long.
    let waited = grant.waited.filter(|waited| sent + *waited < begun);
    let armed = match waited {
        Some(waited) => sent + waited,
        None if has_waited => begun,
        None => sent,
    };
    let must_renew = has_waited && waited.is_none();
    let result = if must_renew {
        let keeping = async {
            let kept = tokio::time::timeout(limit, session.keep(claim)).await;
            kept.unwrap_or_else(|_| {
                Err(Error::indeterminate("the server did not answer the first renewal in time"))
            })
        };
        let (fence, kept) = tokio::join!(noting, keeping);
        fence.and_then(|fence| kept.map(|_| fence))
    } else {
        noting.await
    };
    // The answer shows that the session was alive after `sent`, so a quick one needs no check.
    let was_slow = begun.saturating_since(sent) > JUST_NOW;
    let may_have_ended = must_renew || !grant.is_recorded_later || was_slow;
    let result = match result {
        Ok(_) if may_have_ended && session.ended().now_or_never().is_some() => {
            Err(Error::unavailable("the session with the lock ended before it could be granted"))
        }
        result => result,
    };
    match result {
        Ok(fence) => {
            let is_recorded_later = grant.is_recorded_later;
            Ok(Asked::Granted(Hold { session, fence, armed, broken: false, is_recorded_later }))
        }
        Err(error) => Err(withdraw::failed(&state.server, claim, session, error).await),
    }
}

/// Returns the grant if another session, which this task can't renew, holds the lock for this
/// claim.
async fn carried_elsewhere<S: Server>(
    server: &Sessions<S>,
    claim: &Claim,
) -> Result<Option<Granted>> {
    let Some(holder) = Box::pin(server.carried(claim)).await? else { return Ok(None) };
    let Some(fence) = holder.fence else { return Ok(None) };
    let mut granted = Granted::new(fence);
    granted.valid = Some(left_elsewhere::<S>(&holder));
    Ok(Some(granted))
}

/// Returns how long the hold certainly lasts. A broken one may end at any time, because its client
/// shortens the idle timeout.
pub(super) fn left_elsewhere<S: Server>(holder: &Holder) -> Duration {
    match &holder.broken {
        None => holder.remaining.unwrap_or_default().saturating_sub(S::TIME_LEFT_TOO_LONG_BY),
        Some(_) => Duration::ZERO,
    }
}
