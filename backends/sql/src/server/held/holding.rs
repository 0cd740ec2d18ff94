//! A claim's task while it holds: it renews when asked, listens for the end of the session, and lets
//! go.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Attempt, BootInstant, Claim, Ended, Error, ErrorKind, Event, Fence, Granted, Reason,
    RenewalOutcome, Result,
};
use tokio::sync::oneshot;

use super::shared::{Command, Place, Shared};
use super::task::Inbox;
use super::withdraw::{self, LIMIT};
use super::{Kept, Server, Session};

/// How long it may take to find out why a session ended.
const WHY_LIMIT: Duration = Duration::from_secs(1);

/// A hold and its session.
pub(super) struct Hold<S> {
    pub(super) session: S,
    pub(super) fence: Fence,
    /// Just before the last statement that started the session's idle time anew.
    pub(super) armed: BootInstant,
    pub(super) broken: bool,
}

/// A task with a hold. If its runtime ends, the fields are dropped in this order.
pub(super) struct Holding<S: Server> {
    /// Reports the loss before the session is closed.
    pub(super) live: Live<S>,
    pub(super) shared: Arc<Shared<S>>,
    pub(super) claim: Claim,
    pub(super) place: Place<S>,
    pub(super) inbox: Inbox,
    pub(super) hold: Hold<S::Session>,
}

/// A live hold. If this is dropped without [`Live::end`], the runtime has ended or the task has panicked.
/// The hold is then reported as lost: its connection is closed, and the server frees the lock.
pub(super) struct Live<S: Server>(Option<(Arc<Shared<S>>, Claim)>);

impl<S: Server> Live<S> {
    pub(super) fn new(shared: &Arc<Shared<S>>, claim: &Claim) -> Self {
        Self(Some((Arc::clone(shared), claim.clone())))
    }

    /// Ends it without a report: the hold was released, or its loss was reported.
    fn end(mut self) {
        self.0 = None;
    }
}

impl<S: Server> Drop for Live<S> {
    fn drop(&mut self) {
        if let Some((shared, claim)) = self.0.take() {
            shared.set_over(&claim, Reason::SessionEnded);
            shared.tell(&Event::Lost(claim.token, Reason::SessionEnded));
        }
    }
}

/// How a renewal ended.
enum Renewed {
    From(BootInstant),
    Unsure,
    Broken,
    Lost,
}

impl<S: Server> Holding<S> {
    /// Holds until it is released or lost. A hold that nobody heard of is let go at once.
    pub(super) async fn run(mut self, heard: bool) {
        if !heard {
            return self.let_go(None).await;
        }
        loop {
            // Later than the server's own end of it, whatever unit that is rounded up to. Only a
            // server that can't be heard any more gets here.
            let over = self.hold.armed + self.claim.ttl + self.claim.ttl / 10 + LIMIT;
            let command = tokio::select! {
                biased;
                command = self.inbox.commands.recv() => command,
                () = self.hold.session.ended() => return self.lost(None).await,
                () = self.shared.clock.sleep_until(over) => return self.lost(None).await,
            };
            match command {
                // When the backend is dropped its holds stay, as those on other servers do: they run
                // out, unless the process ends.
                None => return self.let_go(None).await,
                Some(Command::Release(answer)) => return self.let_go(Some(answer)).await,
                // Given up by whoever asked, who will ask again.
                Some(Command::Renew(answer)) if answer.is_closed() => {}
                Some(Command::Renew(answer)) => {
                    let outcome = match self.renew().await {
                        Renewed::From(_) => RenewalOutcome::Renewed { valid: None },
                        Renewed::Unsure => RenewalOutcome::Indeterminate,
                        Renewed::Broken => RenewalOutcome::NotHeld(Reason::Broken),
                        Renewed::Lost => return self.lost(Some(answer)).await,
                    };
                    let _ = answer.send(outcome);
                }
                Some(Command::Acquire(_, answer)) => {
                    let answered = match self.renew().await {
                        Renewed::From(start) => {
                            let mut granted = Granted::new(self.hold.fence);
                            granted.start = Some(start);
                            Ok(Attempt::Granted(granted))
                        }
                        Renewed::Unsure => Err(Error::indeterminate(
                            "the session holds it, but couldn't be renewed",
                        )),
                        Renewed::Broken => Err(lost_claim(Reason::Broken)),
                        Renewed::Lost => {
                            // Whoever asked hears it from what is remembered.
                            drop(answer);
                            return self.lost(None).await;
                        }
                    };
                    let _ = answer.send(answered);
                }
            }
        }
    }

    async fn renew(&mut self) -> Renewed {
        let hold = &mut self.hold;
        if hold.broken {
            return Renewed::Broken;
        }
        let clock = &self.shared.clock;
        let sent = clock.now();
        let over = hold.armed + self.claim.ttl;
        let kept = tokio::select! {
            biased;
            kept = hold.session.keep(&self.claim) => kept,
            // What is answered after that was not renewed in time, whatever the server says.
            () = clock.sleep_until(over) => return Renewed::Lost,
        };
        match kept {
            Ok(Kept::Renewed) => {
                hold.armed = sent;
                Renewed::From(sent)
            }
            Ok(Kept::Unsure) => Renewed::Unsure,
            Ok(Kept::Broken) => {
                // That look has started the session's time anew, which a broken hold must not have.
                hold.broken = true;
                let left = over.saturating_since(clock.now());
                match hold.session.shorten(left).await {
                    Ok(()) => Renewed::Broken,
                    Err(_) => Renewed::Lost,
                }
            }
            Err(error) => {
                tracing::debug!(%error, "the session of a hold has failed");
                Renewed::Lost
            }
        }
    }

    /// Ends the hold on the server, then tells whoever asked for that.
    async fn let_go(self, answer: Option<oneshot::Sender<Result<Ended>>>) {
        let Self { live, shared, claim, place, inbox, hold } = self;
        live.end();
        let mut session = hold.session;
        let unlocked = tokio::time::timeout(LIMIT, session.unlock(&claim)).await;
        let (ended, reusable) = match unlocked {
            Ok(Ok(true)) => (Ok(Ended::Released), Some(session)),
            Ok(Ok(false)) => {
                session.close().await;
                (Ok(Ended::NotHeld), None)
            }
            Ok(Err(_)) | Err(_) => {
                // The server may have ended it by itself, and nobody has heard of that yet.
                let over = shared.clock.now() >= hold.armed + claim.ttl;
                let ended = if over { Ended::NotHeld } else { Ended::Released };
                let closed = withdraw::close(&shared.server, &claim, session, false).await;
                (closed.map(|_| ended), None)
            }
        };
        // Before the answer: who asks for the claim again then must not meet this task.
        drop((place, inbox));
        if let Some(answer) = answer {
            let _ = answer.send(ended);
        }
        if let Some(session) = reusable {
            shared.put_back(session).await;
        }
    }

    /// The session has ended, or can't be trusted any more.
    async fn lost(self, asked: Option<oneshot::Sender<RenewalOutcome>>) {
        let Self { live, shared, claim, place, inbox, hold } = self;
        let reason = if hold.broken {
            Reason::Broken
        } else if shared.clock.now() >= hold.armed + claim.ttl {
            Reason::Expired
        } else {
            let why = tokio::time::timeout(WHY_LIMIT, shared.server.why_ended(&claim)).await;
            why.ok().and_then(Result::ok).flatten().unwrap_or(Reason::SessionEnded)
        };
        shared.set_over(&claim, reason);
        drop((place, inbox));
        if let Some(asked) = asked {
            let _ = asked.send(RenewalOutcome::NotHeld(reason));
        }
        live.end();
        shared.tell(&Event::Lost(claim.token, reason));
        // Where only the way to the server has failed, the session may still be there.
        let _ = withdraw::close(&shared.server, &claim, hold.session, false).await;
    }
}

/// A claim that is never granted any more.
pub(super) fn lost_claim(reason: Reason) -> Error {
    Error::new(
        ErrorKind::Lost(reason),
        format!("this claim has ended: {reason}; ask with a new token"),
    )
}
