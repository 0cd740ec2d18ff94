//! One client's connection to the server, with failing requests and answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock,
    Error, Events, Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome,
    Renew, Renewal, Result, Token, Wait, async_trait,
};
use tokio::time::sleep;

use super::chance::Chance;
use super::server::Server;
use crate::support::{Act, UNAVAILABLE};

const TROUBLES: [fn(Duration) -> Act; 10] = [
    Act::AnswerLate,
    Act::Slow,
    Act::ArriveLate,
    |_| Act::AnswerLost,
    |_| Act::DoneAndSilent,
    |_| Act::Vanish,
    |_| UNAVAILABLE,
    |_| Act::Panic,
    |_| Act::DoneAndPanic,
    |_| Act::Yield,
];

#[derive(Debug)]
pub(super) struct Link {
    server: Arc<Server>,
    chance: Arc<Chance>,
    profile: Profile,
    trouble: u64,
    answers_at_once: bool,
    is_cut: Arc<AtomicBool>,
}

impl Link {
    pub(super) fn new(
        server: &Arc<Server>,
        chance: &Arc<Chance>,
        trouble: u64,
        answers_at_once: bool,
        is_cut: &Arc<AtomicBool>,
    ) -> Self {
        let mut profile = server.memory.profile().clone();
        profile.tombstones = server.manner().tombstones;
        let (server, chance) = (Arc::clone(server), Arc::clone(chance));
        Self { server, chance, profile, trouble, answers_at_once, is_cut: Arc::clone(is_cut) }
    }

    fn server(&self) -> Arc<Server> {
        Arc::clone(&self.server)
    }

    fn fate(&self) -> fn(Duration) -> Act {
        if self.server.is_calm.load(Ordering::SeqCst) {
            return |_| Act::Pass;
        }
        if self.is_cut.load(Ordering::SeqCst) {
            return |_| Act::Vanish;
        }
        if self.chance.below(100) >= self.trouble {
            return |_| Act::Pass;
        }
        self.chance.of(&TROUBLES)
    }

    async fn meet<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.meet_with(self.fate(), call).await
    }

    async fn meet_with<T: Send + 'static>(
        &self,
        fate: fn(Duration) -> Act,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match fate(self.chance.millis_below(3_000)) {
            Act::AnswerLate(time) => {
                let answer = call.await;
                sleep(if self.chance.one_in(2) { time / 6 } else { time * 2 }).await;
                answer
            }
            Act::ArriveLate(time) => {
                tokio::spawn(async move {
                    sleep(time).await;
                    drop(call.await);
                });
                Err(Error::indeterminate("the connection broke"))
            }
            act => act.perform(call).await,
        }
    }

    fn meet_at_once<T>(&self, call: impl FnOnce() -> Option<Result<T>>) -> Option<Result<T>> {
        if !self.answers_at_once {
            return None;
        }
        match self.fate()(Duration::ZERO) {
            Act::AnswerLost => {
                call();
                Some(Err(Error::indeterminate("the answer was lost")))
            }
            Act::Refuse(_) => Some(Err(Error::unavailable("refused"))),
            Act::Panic => panic!("on purpose"),
            Act::DoneAndPanic => {
                call();
                panic!("on purpose")
            }
            Act::Yield | Act::AnswerLate(_) | Act::Vanish => None,
            _ => call(),
        }
    }
}

#[async_trait]
impl DistributedLock for Link {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.server.attach(events);
    }

    fn acquire_at_once(&self, claim: &Claim, now: BootInstant) -> Option<Result<AcquireOutcome>> {
        self.meet_at_once(|| self.server.acquire_at_once(claim, now))
    }

    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Option<Result<ReleaseOutcome>> {
        self.meet_at_once(|| self.server.release_at_once(claim, release_mode, now))
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.meet(self.server().acquire(claim.clone(), wait)).await
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        self.meet(self.server().swap(from, to.clone())).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let claims = holds.iter().map(|hold| hold.claim.clone()).collect();
        self.meet(self.server().renew(claims)).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        self.meet(self.server().release(claim.clone(), release_mode)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let (memory, name) = (self.server.memory.clone(), name.clone());
        self.meet(async move { memory.inspect(&name).await }).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.server.memory.list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        _: &str,
        _: &str,
    ) -> Result<Broken> {
        let call = self.server().break_lock(name.clone(), seen, how);
        let fate = self.fate();
        match fate(Duration::ZERO) {
            // `break_lock` doesn't panic here, because the client wouldn't catch the panic.
            Act::Panic | Act::DoneAndPanic => call.await,
            _ => self.meet_with(fate, call).await,
        }
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.server.memory.doctor().await
    }
}
