//! The environment of a case.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Claim, Clock,
    DistributedLock, ErrorKind, Granted, Identity, LockName, Locks, Mode, Profile, Reason,
    ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalMode, RenewalOutcome, Result, Token, Wait,
};

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::TestedClient;
use crate::factory::{Connect, Factory, Runtime};
use crate::failure::{Failure, Verdict, ensure};
use crate::faults::Faulty;

/// A case's store, clock and names.
pub struct Context {
    /// The case's clock.
    pub clock: Clock,
    /// The holds' TTL.
    pub ttl: Duration,
    /// The backend's profile.
    pub profile: Profile,
    pub(crate) factory: Arc<dyn Factory>,
    connect: Connect,
    root: String,
}

impl Context {
    pub(crate) async fn open(factory: Arc<dyn Factory>, clock: Clock) -> Result<Self> {
        let connect = factory.open(&clock).await?;
        let profile = connect.connect().await?.profile().clone();
        let ttl = factory.ttl().clamp(*profile.ttl.start(), *profile.ttl.end());
        let token = Token::random().to_string();
        let root = format!("conformance-{}/", &token[..16]);
        Ok(Self { clock, ttl, profile, factory, connect, root })
    }

    /// Returns the prefix of the case's names.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the time limit for immediate operations on a busy machine.
    pub fn moment(&self) -> Duration {
        match self.factory.runtime() {
            Runtime::Paused => Duration::from_millis(20),
            Runtime::Real => Duration::from_secs(2),
        }
    }

    /// Returns the time within which an abandoned lock must become free.
    pub fn patience(&self) -> Duration {
        self.ttl * 3 + self.profile.slow_poll * 2 + self.moment()
    }

    /// Connects a new backend.
    pub async fn backend(&self) -> Result<Arc<dyn DistributedLock>> {
        self.connect.connect().await
    }

    /// Returns a client with its own backend.
    pub async fn client(&self) -> Result<Locks> {
        self.client_on(self.backend().await?)
    }

    /// Returns a client on `backend`, with [`root`](Self::root) as namespace.
    pub fn client_on(&self, backend: impl DistributedLock) -> Result<Locks> {
        Locks::builder(backend)
            .ttl(self.ttl)
            .clock(self.clock.clone())
            .namespace(self.root.clone())
            .label("conformance")
            .build()
    }

    /// Returns a client and its fault injector.
    pub async fn faulty_client(&self) -> Result<(Locks, Faulty)> {
        let faulty = Faulty::new(self.backend().await?, self.clock.clone());
        Ok((self.client_on(faulty.clone())?, faulty))
    }

    /// Returns the factory's tested client.
    pub fn tested_client(
        &self,
        backend: Arc<dyn DistributedLock>,
    ) -> Result<Box<dyn TestedClient>> {
        self.factory.tested_client(backend, &self.clock, self.ttl)
    }

    /// Returns `local`, prefixed with [`root`](Self::root).
    pub fn name(&self, local: &str) -> LockName {
        LockName::new(format!("{}{local}", self.root)).expect("the case's names are valid")
    }

    /// Returns an exclusive claim with a fresh token.
    pub fn claim(&self, local: &str) -> Claim {
        Claim {
            name: self.name(local),
            mode: Mode::Exclusive,
            token: Token::random(),
            identity: Arc::new(Identity::of_this_process(Some("conformance"))),
            ttl: self.ttl,
            fences: 1,
            renewal_mode: RenewalMode::Auto,
        }
    }

    /// Returns a claim whose TTL outlasts the case.
    pub fn long_claim(&self, local: &str) -> Claim {
        let ttl = (self.ttl * 30).min(*self.profile.ttl.end());
        Claim { ttl, ..self.claim(local) }
    }

    /// Returns a [`long_claim`](Self::long_claim) in this mode.
    pub fn claim_as(&self, local: &str, mode: Mode) -> Claim {
        Claim { mode, ..self.long_claim(local) }
    }

    /// Requests `claim` every `step` until granted. Fails after `within`.
    pub async fn granted_within(
        &self,
        backend: &dyn DistributedLock,
        claim: &Claim,
        within: Duration,
        step: Duration,
    ) -> Verdict<Entry> {
        let give_up = self.clock.now() + within;
        loop {
            let sent = self.clock.now();
            if let AcquireOutcome::Granted(granted) = backend.try_acquire(claim).await? {
                return Ok(Entry { granted, sent, answered: self.clock.now() });
            }
            if self.clock.now() >= give_up {
                return Err(Failure::late(format!(
                    "the claim was still not granted after {within:?}"
                )));
            }
            self.clock.sleep(step).await;
        }
    }

    pub(crate) async fn are_free_within(&self, names: &[&str], within: Duration) -> Verdict {
        let backend = self.backend().await?;
        for name in names {
            let next = self.claim(name);
            self.granted_within(&*backend, &next, within, self.ttl / 50).await?;
            release(&*backend, &next).await?;
        }
        Ok(())
    }

    /// Waits until none of the case's names is held.
    pub async fn nothing_left(&self) -> Verdict {
        let backend = self.backend().await?;
        let give_up = self.clock.now() + self.patience();
        loop {
            let left = self.held(&*backend).await?;
            if left.is_empty() {
                return Ok(());
            }
            if self.clock.now() >= give_up {
                return Err(Failure::late(format!(
                    "names are still held after the case: {left:?}"
                )));
            }
            self.clock.sleep(self.ttl / 20).await;
        }
    }

    /// Returns the case's held names.
    pub async fn held(&self, backend: &dyn DistributedLock) -> Result<Vec<LockName>> {
        let mut names = Vec::new();
        let mut from = None;
        loop {
            let page = backend.list(&self.root, from).await?;
            names.extend(page.names.into_iter().map(|inspection| inspection.name));
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(names),
            }
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A grant with its request's times.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The grant.
    pub granted: Granted,
    /// The instant just before the request.
    pub sent: BootInstant,
    /// The instant just after the answer.
    pub answered: BootInstant,
}

/// Calls `attempt` until it succeeds, at most three times and each time with a new name. A busy
/// machine can make an attempt fail.
pub async fn soon<F: Future<Output = Verdict>>(mut attempt: impl FnMut(String) -> F) -> Verdict {
    for number in 0..2 {
        if attempt(format!("x{number}")).await.is_ok() {
            return Ok(());
        }
    }
    attempt("x2".to_owned()).await
}

/// Acquires a lock, and fails if it isn't free.
#[track_caller]
pub fn take<'a>(
    context: &'a Context,
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict<Entry>> + 'a {
    let at = Failure::new(format!("{} was not granted though it was free", claim.name));
    async move {
        let sent = context.clock.now();
        match backend.try_acquire(claim).await? {
            AcquireOutcome::Granted(granted) => {
                Ok(Entry { granted, sent, answered: context.clock.now() })
            }
            AcquireOutcome::Busy(_) => Err(at),
        }
    }
}

#[track_caller]
pub(crate) fn take_all<'a>(
    context: &'a Context,
    backend: &'a dyn DistributedLock,
    claims: impl IntoIterator<Item = &'a Claim>,
) -> impl Future<Output = Verdict> {
    let mut taking = Vec::new();
    for claim in claims {
        taking.push(take(context, backend, claim));
    }
    in_turn(taking)
}

async fn in_turn<T>(steps: Vec<impl Future<Output = Verdict<T>>>) -> Verdict {
    for step in steps {
        step.await?;
    }
    Ok(())
}

/// Requests a held lock, and fails if it is granted.
#[track_caller]
pub fn refused<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict<Busy>> + 'a {
    let at = Failure::new(format!("{} was granted to a second claim", claim.name));
    async move {
        match backend.acquire(claim, Wait::No).await? {
            AcquireOutcome::Granted(_) => Err(at),
            AcquireOutcome::Busy(busy) => Ok(busy),
        }
    }
}

/// Acquires and releases a name, and fails if it isn't free.
#[track_caller]
pub fn is_free<'a>(
    context: &'a Context,
    backend: &'a dyn DistributedLock,
    local: &str,
) -> impl Future<Output = Verdict> + 'a {
    let at = Failure::new(format!("{local} was not granted though it was free"));
    let claim = context.long_claim(local);
    async move {
        match backend.try_acquire(&claim).await? {
            AcquireOutcome::Granted(_) => release(backend, &claim).await,
            AcquireOutcome::Busy(busy) => Err(at.because_of(&busy)),
        }
    }
}

/// Releases a claim, and fails if it wasn't held.
#[track_caller]
pub fn release<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict> + 'a {
    let at = Failure::new(format!("{} was not held when it was released", claim.name));
    async move {
        match backend.release(claim, ReleaseMode::Plain).await? {
            ReleaseOutcome::Released => Ok(()),
            ReleaseOutcome::NotHeld => Err(at),
        }
    }
}

#[track_caller]
pub(crate) fn release_all<'a>(
    backend: &'a dyn DistributedLock,
    claims: impl IntoIterator<Item = &'a Claim>,
) -> impl Future<Output = Verdict> {
    let mut releasing = Vec::new();
    for claim in claims {
        releasing.push(release(backend, claim));
    }
    in_turn(releasing)
}

pub(crate) async fn close(clients: &[&Locks]) -> Verdict {
    for locks in clients {
        locks.close().await;
    }
    Ok(())
}

/// Releases a claim, and fails if it was held.
#[track_caller]
pub fn not_released<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
    release_mode: ReleaseMode,
) -> impl Future<Output = Verdict> + 'a {
    let at = Failure::new(format!("a claim of {} that isn't held was released", claim.name));
    async move {
        match backend.release(claim, release_mode).await? {
            ReleaseOutcome::NotHeld => Ok(()),
            ReleaseOutcome::Released => Err(at),
        }
    }
}

/// Renews one hold.
#[track_caller]
pub fn renew<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict<RenewalOutcome>> + 'a {
    let at = Failure::new("a renewal of one hold was not answered by one renewal");
    async move {
        let mut answers = backend.renew(&[Renew::of(claim)]).await?;
        match (answers.pop(), answers.is_empty()) {
            (Some(Renewal { outcome, .. }), true) => Ok(outcome),
            _ => Err(at),
        }
    }
}

/// Renews a hold, and fails if it has ended.
#[track_caller]
pub fn renewed<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict> + 'a {
    let at = Failure::new(format!("a live hold of {} was not renewed", claim.name));
    async move {
        match renew(backend, claim).await? {
            RenewalOutcome::Renewed { .. } => Ok(()),
            outcome => Err(at.because_of(&outcome)),
        }
    }
}

/// Requests a renewal, and fails if the claim is held.
#[track_caller]
pub fn not_renewed<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Verdict> + 'a {
    let at = Failure::new(format!("a claim of {} that isn't held was renewed", claim.name));
    async move {
        match renew(backend, claim).await? {
            RenewalOutcome::NotHeld(_) => Ok(()),
            outcome => Err(at.because_of(&outcome)),
        }
    }
}

/// Checks that a request failed with this kind of error.
#[track_caller]
pub fn fails<T: fmt::Debug>(answer: Result<T>, kind: ErrorKind) -> Verdict {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        other => Err(Failure::new(format!("the answer is not {kind:?}")).because_of(&other)),
    }
}

/// Checks that `answer` reports a lost hold.
#[track_caller]
pub fn is_lost<T: fmt::Debug>(answer: Result<T>) -> Verdict {
    match answer {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
        other => Err(Failure::new("the answer reports no loss").because_of(&other)),
    }
}

/// Breaks the claim's hold.
pub async fn break_hold(
    backend: &dyn DistributedLock,
    claim: &Claim,
    how: BreakMode,
) -> Result<Broken> {
    backend.break_lock(&claim.name, BreakTarget::Token(claim.token), how, "the suite", "why").await
}

pub(crate) async fn is_stopped(
    context: &Context,
    work: impl Future<Output = Result<Verdict>>,
) -> Verdict {
    match timeout(context.patience(), work).await {
        Ok(Err(error)) => {
            let reason = error.lost_reason();
            let is_reported = matches!(reason, Some(Reason::Broken | Reason::Gone));
            ensure!(is_reported, "a broken hold was lost by {reason:?}");
            Ok(())
        }
        Ok(Ok(end)) => end.and(Err(Failure::new("the work completed by itself"))),
        Err(_) => Err(Failure::new("the work was not stopped when its hold was broken")),
    }
}

/// Waits at most half a poll interval for the grant, so that only a wake-up can cause it.
#[track_caller]
pub fn woken<T>(
    context: &Context,
    waiting: JoinHandle<Result<T>>,
) -> impl Future<Output = Verdict<T>> + use<T> {
    let poll = context.profile.slow_poll;
    let at = Failure::late(format!("no waiter was woken within its poll interval of {poll:?}"));
    async move { Ok(timeout(poll / 2, waiting).await.map_err(|_| at)???) }
}
