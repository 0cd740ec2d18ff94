//! A claim's task, which owns the session from acquire to release.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Claim, Error, ErrorKind, Granted, ReleaseOutcome,
    RenewalOutcome, Result, Wait,
};
use tokio::sync::{mpsc, oneshot, watch};

use super::holding::{Hold, Holding, Live};
use super::queue::Turn;
use super::shared::{Command, Place, Shared};
use super::withdraw::{self, LIMIT};
use super::{Locked, Server, Session};
use crate::server::errors::{self, Effect};

/// The longest wait in one statement. An abandoned wait delays others for that time.
const LONGEST_SLICE: Duration = Duration::from_secs(5);

/// A wait ends this long before its limit, so that the rejection is on time.
const EARLY: Duration = Duration::from_millis(25);

/// The pause before a retry if another session holds the lock for the same claim.
const PAUSE: Duration = Duration::from_millis(100);

/// The minimum limit for an attempt, because a short TTL gives a slow server too little time.
const LEAST_TRY: Duration = Duration::from_millis(500);

pub(super) struct Task<S: Server> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) claim: Claim,
    pub(super) place: Place<S>,
    pub(super) inbox: Inbox,
}

pub(super) struct Inbox {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    pub(super) closing: watch::Receiver<()>,
    pub(super) answer: Option<oneshot::Sender<Result<AcquireOutcome>>>,
    others: Vec<oneshot::Sender<Result<AcquireOutcome>>>,
}

pub(super) enum Withdrawn {
    Unwanted,
    Released(oneshot::Sender<Result<ReleaseOutcome>>),
    Closing,
}

enum Asked<S> {
    Granted(Hold<S>),
    CarriedElsewhere(Granted),
    Busy,
    Withdrawn(Withdrawn),
}

impl Inbox {
    pub(super) fn new(
        commands: mpsc::UnboundedReceiver<Command>,
        closing: watch::Receiver<()>,
        answer: oneshot::Sender<Result<AcquireOutcome>>,
    ) -> Self {
        Self { commands, closing, answer: Some(answer), others: Vec::new() }
    }

    /// Answers other requests until the claim is withdrawn.
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
        let Self { shared, claim, place, mut inbox } = self;
        match asked {
            Ok(Asked::Granted(hold)) => {
                let mut granted = Granted::new(hold.fence);
                granted.start = Some(hold.armed);
                let live = Live::new(&shared, &claim);
                let was_received = inbox.send_granted(granted);
                Holding { live, shared, claim, place, inbox, hold }.run(was_received).await;
            }
            Ok(Asked::CarriedElsewhere(granted)) => {
                drop(place);
                inbox.send_granted(granted);
            }
            Ok(Asked::Busy) => {
                drop(place);
                if let Some(answer) = inbox.answer.take() {
                    let _ = answer.send(Ok(AcquireOutcome::Busy(Busy::default())));
                }
            }
            Ok(Asked::Withdrawn(Withdrawn::Released(answer))) => {
                drop(place);
                let _ = answer.send(Ok(ReleaseOutcome::Released));
            }
            Ok(Asked::Withdrawn(Withdrawn::Unwanted | Withdrawn::Closing)) => {}
            Err(error) => {
                drop(place);
                if let Some(answer) = inbox.answer.take() {
                    let _ = answer.send(Err(error));
                }
            }
        }
    }

    async fn ask(&mut self, wait: Wait) -> Result<Asked<S::Session>> {
        let Self { shared, claim, inbox, .. } = self;
        let _turn: Option<Turn<'_>> = match wait {
            Wait::No => None,
            Wait::Until(limit) => tokio::select! {
                biased;
                why = inbox.withdrawn() => return Ok(Asked::Withdrawn(why)),
                turn = shared.queues.enter(&claim.name) => Some(turn),
                () = shared.clock.sleep_until(limit) => return Ok(Asked::Busy),
            },
        };
        let (mut session, mut used) = tokio::select! {
            biased;
            why = inbox.withdrawn() => return Ok(Asked::Withdrawn(why)),
            session = live_session(shared, claim) => session?,
        };
        let mut tries = 0;
        let mut may_have_been_late = false;
        loop {
            let left = match wait {
                Wait::No => Duration::ZERO,
                Wait::Until(limit) => limit.saturating_since(shared.clock.now()),
            };
            let slice = (left > EARLY).then(|| (left - EARLY).min(claim.ttl).min(LONGEST_SLICE));
            if slice.is_none() && tries > 0 {
                give_back(shared, session).await;
                return Ok(Asked::Busy);
            }
            tries += 1;
            let last = slice.is_some_and(|slice| slice + EARLY >= left);
            let sent = shared.clock.now();
            let locked = {
                let id = session.id();
                let limit = lock_limit(claim, slice, shared.server.answer_limit());
                let mut locking = pin!(session.lock(claim, slice, last));
                tokio::select! {
                    biased;
                    locked = &mut locking => Ok(locked),
                    why = inbox.withdrawn() => {
                        let quiet = withdraw::from_wait(&shared.server, id, locking).await;
                        Err((why, quiet))
                    }
                    () = tokio::time::sleep(limit) => {
                        let backend = shared.server.profile().backend;
                        Ok(Err(errors::timed_out(Effect::Changes, limit, backend).error))
                    }
                }
            };
            let locked = match locked {
                Ok(locked) => locked,
                Err((why, quiet)) => return Ok(given_up(shared, claim, session, quiet, why).await),
            };
            match locked {
                Ok(Locked::Yes) => {
                    return granted(shared, claim, session, slice.is_some(), sent).await;
                }
                Ok(Locked::No { same_token }) => {
                    if same_token
                        && let Some(granted) = carried_elsewhere(&shared.server, claim).await?
                    {
                        give_back(shared, session).await;
                        return Ok(Asked::CarriedElsewhere(granted));
                    }
                    if std::mem::take(&mut may_have_been_late) {
                        // The late statement may have given the closed session the lock, so that
                        // session is ended.
                        shared.server.end(claim).await?;
                        tries = 0;
                        continue;
                    }
                    if same_token && slice.is_some() {
                        // The other session may be left over from an abandoned attempt, and the
                        // server may list it for a while.
                        tokio::select! {
                            biased;
                            why = inbox.withdrawn() => {
                                return Ok(given_up(shared, claim, session, false, why).await);
                            }
                            () = tokio::time::sleep(PAUSE.min(left)) => {}
                        }
                    }
                }
                Err(error) if used => {
                    // Other idle sessions may have ended too. If only the connection has ended, its
                    // session may have acquired the lock.
                    tracing::debug!(%error, "an idle session had ended");
                    tries = 0;
                    // After a definite error, the session needn't be ended.
                    let quiet = error.kind() != ErrorKind::Indeterminate;
                    let closed = withdraw::close(&shared.server, claim, session, quiet).await;
                    shared.close_idle(true).await;
                    // A statement in transit may still acquire the lock.
                    may_have_been_late = !closed.map_err(|unknown| unknown.with_source(error))?;
                    (session, used) = live_session(shared, claim).await?;
                }
                Err(error) => {
                    return Err(withdraw::failed(&shared.server, claim, session, error).await);
                }
            }
        }
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
    shared: &Shared<S>,
    claim: &Claim,
    session: S::Session,
    quiet: bool,
    why: Withdrawn,
) -> Asked<S::Session> {
    let closed = withdraw::close(&shared.server, claim, session, quiet).await;
    Asked::Withdrawn(match (why, closed) {
        (Withdrawn::Released(answer), Err(error)) => {
            let _ = answer.send(Err(error));
            Withdrawn::Unwanted
        }
        (why, _) => why,
    })
}

async fn give_back<S: Server>(shared: &Arc<Shared<S>>, mut session: S::Session) {
    match tokio::time::timeout(LIMIT, session.leave()).await {
        Ok(Ok(())) => shared.put_back(session).await,
        Ok(Err(_)) | Err(_) => session.close().await,
    }
}

async fn live_session<S: Server>(shared: &Shared<S>, claim: &Claim) -> Result<(S::Session, bool)> {
    loop {
        let (mut session, used) = shared.session(claim).await?;
        if !used || !has_ended(&mut session).await {
            return Ok((session, used));
        }
        session.close().await;
    }
}

async fn has_ended(session: &mut impl Session) -> bool {
    tokio::select! {
        biased;
        () = session.ended() => true,
        () = std::future::ready(()) => false,
    }
}

async fn granted<S: Server>(
    shared: &Arc<Shared<S>>,
    claim: &Claim,
    mut session: S::Session,
    may_have_blocked: bool,
    sent: BootInstant,
) -> Result<Asked<S::Session>> {
    let begun = shared.clock.now();
    let id = session.id();
    let limit = LIMIT.min(claim.ttl);
    let noting = async {
        match tokio::time::timeout(limit, shared.server.note(claim, id)).await {
            Ok(Ok(Some(fence))) => Ok(fence),
            Ok(Ok(None)) => Err(Error::unavailable(
                "the session with the lock ended before its fence was written; a longer \
                 TTL gives a slow server more time",
            )),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::indeterminate("the server didn't write the fence in time")),
        }
    };
    let result = if may_have_blocked {
        // The TTL counts from the sending of this renewal, because the wait was sent long before
        // the grant, and answered after it.
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
    let ended = has_ended(&mut session).await;
    let result = match result {
        Ok(_) if ended => {
            Err(Error::unavailable("the session with the lock ended before it could be granted"))
        }
        result => result,
    };
    match result {
        Ok(fence) => {
            let armed = if may_have_blocked { begun } else { sent };
            Ok(Asked::Granted(Hold { session, fence, armed, broken: false }))
        }
        Err(error) => Err(withdraw::failed(&shared.server, claim, session, error).await),
    }
}

/// Returns another session's grant for the claim's own token, if any. This task can't renew that
/// hold.
async fn carried_elsewhere<S: Server>(server: &S, claim: &Claim) -> Result<Option<Granted>> {
    let inspection = server.inspect(&claim.name).await?;
    let holder = inspection.holders.iter().find(|holder| holder.token == Some(claim.token));
    let Some(fence) = holder.and_then(|holder| holder.fence) else { return Ok(None) };
    let mut granted = Granted::new(fence);
    let left = holder.and_then(|holder| holder.remaining).unwrap_or_default();
    granted.valid = Some(left.saturating_sub(S::TIME_LEFT_TOO_LONG_BY));
    Ok(Some(granted))
}
