//! Passes the operations of the modes `session` and `row` to the claim's task or to the server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Clock, Cursor, DistributedLock, Error,
    Events, Finding, Inspection, LockName, Mode, Page, Profile, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, RenewalOutcome, Result, SweepReport, Wait, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::holding::lost_claim;
use super::task::left_elsewhere;
use super::withdraw::LIMIT;
use super::{Command, EngineState, Inbox, Server, Sessions, Task};

pub(crate) struct Engine<S: Server> {
    state: Arc<EngineState<S>>,
    runtime: Handle,
    /// Dropping it makes waiting tasks withdraw their claims.
    open: watch::Sender<()>,
}

impl<S: Server> Engine<S> {
    pub(crate) fn new(server: Arc<Sessions<S>>, clock: Clock) -> Self {
        Self {
            state: EngineState::start(server, clock),
            runtime: Handle::current(),
            open: watch::Sender::new(()),
        }
    }

    fn named(&self, error: Error, claim: &Claim) -> Error {
        error.with_name(&claim.name).with_backend(self.profile().backend)
    }

    fn has_mode_of(&self, claim: &Claim) -> Result<()> {
        let what = match claim.mode {
            mode if self.profile().modes.contains(mode) => return Ok(()),
            Mode::Shared => "read locks",
            _ => "semaphores",
        };
        Err(Error::unsupported(what, self.profile()).with_name(&claim.name))
    }

    /// Returns `None` if the claim has no task.
    async fn ask<T>(&self, claim: &Claim, command: fn(oneshot::Sender<T>) -> Command) -> Option<T> {
        while let Some(task) = self.state.task(claim) {
            let (answer, answered) = oneshot::channel();
            let is_sent = task.send(command(answer)).is_ok();
            // A task that ends now may leave the command in the channel, which drops it with the
            // last sender.
            drop(task);
            if is_sent && let Ok(answer) = answered.await {
                return Some(answer);
            }
            tokio::task::yield_now().await;
        }
        None
    }

    async fn renewal(&self, claim: &Claim) -> Result<RenewalOutcome> {
        if let Some(outcome) = self.ask(claim, Command::Renew).await {
            return Ok(outcome);
        }
        if let Some(reason) = self.state.over.reason(claim) {
            return Ok(RenewalOutcome::NotHeld(reason));
        }
        Ok(match self.state.server.carried(claim).await? {
            None => {
                let why = self.state.server.why_ended(claim).await?;
                RenewalOutcome::NotHeld(why.unwrap_or(Reason::Gone))
            }
            Some(holder) if holder.broken.is_some() => RenewalOutcome::NotHeld(Reason::Broken),
            Some(holder) => RenewalOutcome::Renewed { valid: Some(left_elsewhere::<S>(&holder)) },
        })
    }
}

impl<S: Server> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("profile", self.profile()).finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: Server> DistributedLock for Engine<S> {
    fn profile(&self) -> &Profile {
        &self.state.server.profile
    }

    fn attach(&self, events: Events) {
        self.state.clients.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.has_mode_of(claim)?;
        loop {
            if let Some(reason) = self.state.over.reason(claim) {
                return Err(self.named(lost_claim(reason), claim));
            }
            let (answer, answered) = oneshot::channel();
            match self.state.task_or_place(claim) {
                Ok(task) => {
                    let _ = task.send(Command::Acquire(wait, answer));
                    drop(task); // see `ask`
                    if let Ok(result) = answered.await {
                        return result.map_err(|error| self.named(error, claim));
                    }
                    tokio::task::yield_now().await;
                }
                Err((place, commands)) => {
                    let (closing, answer) = (self.open.subscribe(), Some(answer));
                    let inbox = Inbox { commands, closing, answer, others: Vec::new() };
                    let (state, own) = (Arc::clone(&self.state), claim.clone());
                    let task = Task { state, claim: own, place, inbox };
                    self.runtime.spawn(task.run(wait));
                    let ended = "the task that asked for it has ended: it was released, or the \
                                 runtime that the backend was opened on is gone";
                    let ended = |_| Err(Error::indeterminate(ended));
                    let result = answered.await.unwrap_or_else(ended);
                    return result.map_err(|error| self.named(error, claim));
                }
            }
        }
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let until = Instant::now() + Renew::time_to_answer(holds);
        let renewals = holds.iter().map(|hold| async move {
            let outcome = match timeout_at(until, self.renewal(hold.claim)).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => {
                    tracing::debug!(%error, name = %hold.claim.name, "a renewal failed");
                    RenewalOutcome::Indeterminate
                }
                Err(_) => RenewalOutcome::Indeterminate,
            };
            Renewal { outcome, waiters: false }
        });
        Ok(join_all(renewals).await)
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        if release_mode == ReleaseMode::Reconcile {
            self.state.over.set(claim, Reason::Gone);
        }
        if let Some(ended) = self.ask(claim, Command::Release).await {
            return ended.map_err(|error| self.named(error, claim));
        }
        let ending = tokio::time::timeout(LIMIT, self.state.server.release(claim));
        let silent = |_| Err(Error::indeterminate("the server didn't answer the release"));
        match ending.await.unwrap_or_else(silent) {
            Ok(true) => Ok(ReleaseOutcome::Released),
            Ok(false) => Ok(ReleaseOutcome::NotHeld),
            Err(error) => Err(self.named(error, claim)),
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.state.until_recorded(|held| held == name).await;
        self.state.server.inspect(name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        if from.is_none() {
            self.state.until_recorded(|held| held.as_str().starts_with(prefix)).await;
        }
        self.state.server.list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        self.state.until_recorded(|held| held == name).await;
        let note = format!("{by}: {reason}");
        let broken = self.state.server.break_lock(name, seen, how, &note).await;
        broken.map_err(|error| error.with_name(name))
    }

    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        self.state.server.sweep(idle).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        S::doctor(&self.state.server).await
    }
}
