//! A claim's task while it holds the lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Error, ErrorKind, Event, Fence, Granted, Reason,
    ReleaseOutcome, RenewalOutcome, Result,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::withdraw::LIMIT;
use super::{
    Command, EngineState, HoldSession, Inbox, Kept, Place, RECORD_AFTER, Server, Unrecorded,
    withdraw,
};

const WHY_LIMIT: Duration = Duration::from_secs(1);

pub(super) struct Hold<S: Server> {
    pub(super) session: HoldSession<S>,
    pub(super) fence: Fence,
    /// An instant shortly before the last restart of the idle timeout.
    pub(super) armed: BootInstant,
    pub(super) broken: bool,
    pub(super) is_recorded_later: bool,
}

impl<S: Server> Hold<S> {
    pub(super) fn granted(&self) -> Granted {
        let mut granted = Granted::new(self.fence);
        granted.start = Some(self.armed);
        granted
    }
}

pub(super) struct Holding<S: Server> {
    /// Dropped first, to report a loss before the session ends.
    pub(super) live: Live<S>,
    pub(super) state: Arc<EngineState<S>>,
    pub(super) claim: Claim,
    pub(super) place: Place<S>,
    pub(super) inbox: Inbox,
    pub(super) hold: Hold<S>,
}

/// Reports the hold as lost if dropped without [`Live::end`], as by a panic or the runtime's end.
pub(super) struct Live<S: Server>(Option<(Arc<EngineState<S>>, Claim)>);

impl<S: Server> Live<S> {
    pub(super) fn new(state: &Arc<EngineState<S>>, claim: &Claim) -> Self {
        Self(Some((Arc::clone(state), claim.clone())))
    }

    fn end(mut self) {
        self.0 = None;
    }
}

impl<S: Server> Drop for Live<S> {
    fn drop(&mut self) {
        if let Some((state, claim)) = self.0.take() {
            state.report(&claim, Reason::SessionEnded);
        }
    }
}

enum End {
    LetGo(Option<oneshot::Sender<Result<ReleaseOutcome>>>),
    Lost(Option<oneshot::Sender<RenewalOutcome>>),
}

impl<S: Server> Holding<S> {
    /// Serves the hold until it ends. Releases it at once if no caller received the grant.
    pub(super) async fn run(mut self, was_received: bool) {
        let end = if was_received { self.serve().await } else { End::LetGo(None) };
        match end {
            End::LetGo(answer) => self.let_go(answer).await,
            End::Lost(asked) => Box::pin(self.lost(asked)).await,
        }
    }

    async fn serve(&mut self) -> End {
        if !self.is_recorded() {
            let at = Instant::now() + RECORD_AFTER;
            let _ = self.state.late_records.send((at, self.unrecorded()));
        }
        loop {
            // At `over`, the idle timeout has certainly ended a hold's own session. A joint session
            // stays open, so the client ends this hold after the TTL.
            let late = match self.hold.session {
                HoldSession::Own(_) => self.claim.ttl / 10 + LIMIT,
                HoldSession::Joint(_) => Duration::ZERO,
            };
            let over = self.hold.armed + self.claim.ttl + late;
            let command = tokio::select! {
                biased;
                command = self.inbox.commands.recv() => command,
                () = self.hold.session.ended() => return End::Lost(None),
                () = self.state.clock.sleep_until(over) => return End::Lost(None),
            };
            match command {
                None => return End::LetGo(None),
                Some(Command::Release(answer)) => return End::LetGo(Some(answer)),
                Some(Command::Renew(answer)) if answer.is_closed() => {}
                Some(Command::Renew(answer)) => {
                    let outcome = match self.renew().await {
                        Kept::Renewed => RenewalOutcome::Renewed { valid: None },
                        Kept::Unsure => RenewalOutcome::Indeterminate,
                        Kept::Broken => RenewalOutcome::NotHeld(Reason::Broken),
                        Kept::Ended => return End::Lost(Some(answer)),
                    };
                    let _ = answer.send(outcome);
                }
                Some(Command::Acquire(_, answer)) => {
                    let answered = match self.renew().await {
                        Kept::Renewed => Ok(AcquireOutcome::Granted(self.hold.granted())),
                        Kept::Unsure => Err(Error::indeterminate(
                            "the session holds it, but couldn't be renewed",
                        )),
                        Kept::Broken => Err(lost_claim(Reason::Broken)),
                        Kept::Ended => return End::Lost(None),
                    };
                    let _ = answer.send(answered);
                }
            }
        }
    }

    fn is_recorded(&self) -> bool {
        self.place.is_recorded.load(Ordering::Relaxed)
    }

    fn unrecorded(&self) -> Unrecorded {
        Unrecorded {
            claim: self.claim.clone(),
            session: self.hold.session.id(),
            fence: self.hold.fence,
            is_recorded: Arc::downgrade(&self.place.is_recorded),
        }
    }

    async fn renew(&mut self) -> Kept {
        if !self.is_recorded() {
            self.unrecorded().record(&self.state.server);
        }
        let hold = &mut self.hold;
        if hold.broken {
            return Kept::Broken;
        }
        let clock = &self.state.clock;
        let sent = clock.now();
        let over = hold.armed + self.claim.ttl;
        let kept = tokio::select! {
            biased;
            kept = hold.session.keep(&self.claim) => kept,
            () = clock.sleep_until(over) => return Kept::Ended,
        };
        match &kept {
            Ok(Kept::Renewed) => hold.armed = sent,
            Ok(Kept::Broken) => {
                // `keep` restarted the idle timeout, but a broken hold must not last longer than
                // before.
                hold.broken = true;
                let left = over.saturating_since(clock.now());
                let shortening = tokio::time::timeout(left.min(LIMIT), hold.session.shorten(left));
                if !matches!(shortening.await, Ok(Ok(_))) {
                    return Kept::Ended;
                }
                // `inspect` adds the recorded TTL to the time of the session's last statement, now
                // `shorten`. So the rest is recorded as the TTL.
                let (state, claim) = (Arc::clone(&self.state), self.claim.clone());
                tokio::spawn(async move {
                    let left = over.saturating_since(state.clock.now());
                    let noting = state.server.note_rest(&claim, left);
                    let _ = tokio::time::timeout(left.min(LIMIT), noting).await;
                });
            }
            Ok(Kept::Unsure | Kept::Ended) => {}
            Err(error) => tracing::debug!(%error, "the session of a hold has failed"),
        }
        kept.unwrap_or(Kept::Ended)
    }

    async fn let_go(self, answer: Option<oneshot::Sender<Result<ReleaseOutcome>>>) {
        let Self { live, state, claim, place, inbox, hold } = self;
        live.end();
        let mut session = hold.session;
        let unlocked = tokio::time::timeout(LIMIT, session.unlock(&claim)).await;
        let (ended, reusable) = match unlocked {
            Ok(Ok(true)) => (Ok(ReleaseOutcome::Released), Some(session)),
            Ok(Ok(false)) => {
                session.close().await;
                (Ok(ReleaseOutcome::NotHeld), None)
            }
            Ok(Err(_)) | Err(_) => {
                let over = state.clock.now() >= hold.armed + claim.ttl;
                let ended = if over { ReleaseOutcome::NotHeld } else { ReleaseOutcome::Released };
                let closed = Box::pin(withdraw::close(&state.server, &claim, session, false)).await;
                (closed.map(|_| ended), None)
            }
        };
        // The task is unregistered before its answer, so the caller's next request doesn't reach it.
        drop((place, inbox));
        // The joint session's slot is freed before the answer, for the caller's next hold.
        let own = match reusable {
            Some(HoldSession::Own(session)) => Some(session),
            joint => {
                drop(joint);
                None
            }
        };
        if let Some(answer) = answer {
            let _ = answer.send(ended);
        }
        if let Some(session) = own {
            state.put_back(session).await;
        }
    }

    async fn lost(self, asked: Option<oneshot::Sender<RenewalOutcome>>) {
        let Self { live, state, claim, place, inbox, hold } = self;
        let reason = if hold.broken {
            Reason::Broken
        } else if state.clock.now() >= hold.armed + claim.ttl {
            Reason::Expired
        } else {
            let why = Box::pin(state.server.why_ended(&claim));
            let why = tokio::time::timeout(WHY_LIMIT, why).await;
            why.ok().and_then(Result::ok).flatten().unwrap_or(Reason::SessionEnded)
        };
        state.over.set(&claim, reason);
        drop((place, inbox));
        if let Some(asked) = asked {
            let _ = asked.send(RenewalOutcome::NotHeld(reason));
        }
        live.end();
        state.clients.send(&Event::Lost(claim.token, reason));
        let _ = withdraw::close(&state.server, &claim, hold.session, false).await;
    }
}

pub(super) fn lost_claim(reason: Reason) -> Error {
    Error::new(
        ErrorKind::Lost(reason),
        format!("this claim has ended: {reason}; ask with a new token"),
    )
}
