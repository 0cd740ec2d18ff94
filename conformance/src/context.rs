use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Busy, Claim, Clock,
    DistributedLock, ErrorKind, Fencing, Granted, Guard, Held, Holder, Identity, LockName, Locks,
    Mode, Profile, Reason, ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalMode,
    RenewalOutcome, Result, Token, Wait,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::client::TestedClient;
use crate::factory::{Connect, Factory, Runtime};
use crate::failure::{Failure, Verdict, ensure, in_time};
use crate::faults::Faulty;
use crate::history::journal::Entry;
use crate::history::{Figures, Rules, check};

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) ttl: Duration,
    pub(crate) profile: Profile,
    pub(crate) backend: Arc<dyn DistributedLock>,
    pub(crate) factory: Arc<Factory>,
    connect: Connect,
    pub(crate) root: String,
}

impl Context {
    pub(crate) async fn open(factory: Arc<Factory>, clock: Clock) -> Result<Self> {
        let connect = (factory.open)(&clock);
        let backend = connect.connect().await?;
        let profile = backend.profile().clone();
        let ttl = factory.ttl.clamp(*profile.ttl.start(), *profile.ttl.end());
        let token = Token::random().to_string();
        let root = format!("conformance-{}/", &token[..16]);
        Ok(Self { clock, ttl, profile, backend, factory, connect, root })
    }

    pub(crate) async fn another(&self) -> Result<Self> {
        self.on(&self.connect).await
    }

    pub(crate) async fn on(&self, connect: &Connect) -> Result<Self> {
        let (backend, connect) = (connect.connect().await?, connect.clone());
        Ok(Self { backend, connect, ..self.clone() })
    }

    /// Returns the time limit for immediate operations on a busy machine.
    pub(crate) fn moment(&self) -> Duration {
        match self.factory.runtime {
            Runtime::Paused => Duration::from_millis(20),
            Runtime::Real => Duration::from_secs(2),
        }
    }

    /// Returns the time within which an abandoned lock must become free.
    pub(crate) fn patience(&self) -> Duration {
        self.ttl * 3 + self.profile.slow_poll * 2 + self.moment()
    }

    pub(crate) async fn client(&self) -> Result<Locks> {
        self.client_on(self.connect.connect().await?)
    }

    pub(crate) async fn guard(&self) -> Result<Guard> {
        self.client().await?.mutex("x").acquire().await
    }

    pub(crate) async fn two_clients(&self) -> Result<(Locks, Locks)> {
        Ok((self.client().await?, self.client().await?))
    }

    pub(crate) fn client_on(&self, backend: impl DistributedLock) -> Result<Locks> {
        Locks::builder(backend)
            .ttl(self.ttl)
            .clock(self.clock.clone())
            .namespace(self.root.clone())
            .label("conformance")
            .build()
    }

    pub(crate) async fn faulty_client(&self) -> Result<(Locks, Faulty)> {
        let faulty = self.faulty().await?;
        Ok((self.client_on(faulty.clone())?, faulty))
    }

    pub(crate) async fn faulty_guard(&self) -> Result<(Guard, Faulty)> {
        let (locks, faulty) = self.faulty_client().await?;
        Ok((locks.mutex("x").acquire().await?, faulty))
    }

    pub(crate) async fn faulty(&self) -> Result<Faulty> {
        Ok(Faulty::new(self.connect.connect().await?, self.clock.clone()))
    }

    pub(crate) fn has_fences(&self) -> bool {
        self.profile.fencing != Fencing::None
    }

    pub(crate) fn checked(&self, mut entries: Vec<Entry>) -> Verdict<Figures> {
        entries.sort_by_key(|entry| entry.at);
        let fences = self.has_fences();
        let rules = Rules { fences, must_show: false, ..Rules::default() };
        let checked = check(&entries, &rules);
        match checked.violations.first() {
            Some(violation) => Err(Failure::new(violation.to_string())),
            None => Ok(checked.figures),
        }
    }

    #[track_caller]
    pub(crate) fn took_its_limit(&self, begun: BootInstant, limit: Duration) -> Verdict {
        let took = self.clock.now().saturating_since(begun);
        ensure!(took >= limit, "the limit of {limit:?} was reached after {took:?}");
        in_time!(took < limit + self.moment(), "the limit of {limit:?} was reached after {took:?}");
        Ok(())
    }

    pub(crate) fn tested_client(
        &self,
        backend: Arc<dyn DistributedLock>,
    ) -> Result<Box<dyn TestedClient>> {
        (self.factory.tested_client)(backend, &self.clock, self.ttl)
    }

    pub(crate) fn name(&self, local: &str) -> LockName {
        LockName::new(format!("{}{local}", self.root)).expect("the case's names are valid")
    }

    pub(crate) fn claim(&self, local: &str) -> Claim {
        Claim {
            name: self.name(local),
            mode: Mode::Exclusive,
            token: Token::random(),
            identity: Arc::new(Identity::of_this_process(Some("conformance"))),
            ttl: self.ttl,
            fences: 1,
            renewal_mode: RenewalMode::Auto,
            recall: false,
        }
    }

    pub(crate) fn long_claim(&self, local: &str) -> Claim {
        self.claim_for(local, self.ttl * 30)
    }

    pub(crate) fn long_claims(&self, count: usize) -> Vec<Claim> {
        (0..count).map(|number| self.long_claim(&format!("x{number}"))).collect()
    }

    pub(crate) fn claim_for(&self, local: &str, ttl: Duration) -> Claim {
        Claim { ttl: ttl.min(*self.profile.ttl.end()), ..self.claim(local) }
    }

    pub(crate) fn claim_as(&self, local: &str, mode: Mode) -> Claim {
        Claim { mode, ..self.long_claim(local) }
    }

    fn grant(&self, granted: Granted, sent: BootInstant) -> Grant {
        Grant { granted, sent, answered: self.clock.now() }
    }

    pub(crate) async fn granted_within(&self, claim: &Claim, within: Duration) -> Verdict<Grant> {
        self.granted_every(self.ttl / 100, claim, within, Wait::No).await
    }

    pub(crate) async fn granted_every(
        &self,
        step: Duration,
        claim: &Claim,
        within: Duration,
        wait: Wait,
    ) -> Verdict<Grant> {
        let give_up = self.clock.now() + within;
        loop {
            let sent = self.clock.now();
            if let AcquireOutcome::Granted(granted) = self.backend.acquire(claim, wait).await? {
                return Ok(self.grant(granted, sent));
            }
            let is_in_time = self.clock.now() < give_up;
            in_time!(is_in_time, "the claim was still not granted after {within:?}");
            self.clock.sleep(step).await;
        }
    }

    pub(crate) async fn granted_in_the_end(&self, claim: &Claim) -> Verdict<Grant> {
        self.granted_within(claim, self.patience()).await
    }

    pub(crate) async fn are_free_within(&self, names: &[&str], within: Duration) -> Verdict {
        for name in names {
            let next = self.claim(name);
            self.granted_within(&next, within).await?;
            self.release(&next).await?;
        }
        Ok(())
    }

    pub(crate) async fn nothing_left(&self) -> Verdict {
        let left = self.left_after(self.patience()).await?;
        in_time!(left.is_empty(), "names are still held after the case: {left:?}");
        Ok(())
    }

    /// Waits at most `time` until no name of the case is held. Returns those that are.
    pub(crate) async fn left_after(&self, time: Duration) -> Result<Vec<LockName>> {
        let give_up = self.clock.now() + time;
        loop {
            let left = self.held().await?;
            if left.is_empty() || self.clock.now() >= give_up {
                return Ok(left);
            }
            self.clock.sleep(self.ttl / 50).await;
        }
    }

    pub(crate) async fn held(&self) -> Result<Vec<LockName>> {
        self.listed("").await
    }

    pub(crate) async fn listed(&self, prefix: &str) -> Result<Vec<LockName>> {
        let (prefix, mut names, mut from) = (format!("{}{prefix}", self.root), Vec::new(), None);
        loop {
            let page = self.backend.list(&prefix, from).await?;
            names.extend(page.names.into_iter().map(|inspection| inspection.name));
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(names),
            }
        }
    }

    pub(crate) async fn holders(&self, local: &str) -> Result<Vec<Holder>> {
        Ok(self.backend.inspect(&self.name(local)).await?.holders)
    }

    #[track_caller]
    pub(crate) fn take(&self, claim: &Claim) -> impl Future<Output = Verdict<Grant>> {
        let at = Failure::new(format!("{} was not granted though it was free", claim.name));
        async move {
            let sent = self.clock.now();
            match self.backend.try_acquire(claim).await? {
                AcquireOutcome::Granted(granted) => Ok(self.grant(granted, sent)),
                AcquireOutcome::Busy(busy) => Err(at.because_of(&busy)),
            }
        }
    }

    #[track_caller]
    pub(crate) fn taken(&self, claim: Claim) -> impl Future<Output = Verdict<Claim>> {
        let at = Failure::new(format!("{} was not granted though it was free", claim.name));
        async move {
            match self.backend.try_acquire(&claim).await? {
                AcquireOutcome::Granted(_) => Ok(claim),
                AcquireOutcome::Busy(busy) => Err(at.because_of(&busy)),
            }
        }
    }

    #[track_caller]
    pub(crate) fn take_all<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a Claim>,
    ) -> impl Future<Output = Verdict> {
        let mut taking = Vec::new();
        for claim in claims {
            taking.push(self.take(claim));
        }
        in_turn(taking)
    }

    #[track_caller]
    pub(crate) fn refused(&self, claim: &Claim) -> impl Future<Output = Verdict<Busy>> {
        let at = Failure::new(format!("{} was granted to a second claim", claim.name));
        self.busy(claim, Wait::No, at)
    }

    #[track_caller]
    pub(crate) fn queued(&self, claim: &Claim, wait: Wait) -> impl Future<Output = Verdict<Busy>> {
        let at = Failure::new("a waiter was granted while another client held the name");
        self.busy(claim, wait, at)
    }

    async fn busy(&self, claim: &Claim, wait: Wait, at: Failure) -> Verdict<Busy> {
        match self.backend.acquire(claim, wait).await? {
            AcquireOutcome::Granted(_) => Err(at),
            AcquireOutcome::Busy(busy) => Ok(busy),
        }
    }

    #[track_caller]
    pub(crate) fn is_held(&self, local: &str) -> impl Future<Output = Verdict> {
        let at = Failure::new(format!("{local} was granted to a second claim"));
        let claim = self.long_claim(local);
        async move { self.busy(&claim, Wait::No, at).await.map(drop) }
    }

    #[track_caller]
    pub(crate) fn is_free(&self, local: &str) -> impl Future<Output = Verdict> {
        let taking = self.taken(self.long_claim(local));
        async move { self.release(&taking.await?).await }
    }

    #[track_caller]
    pub(crate) fn release(&self, claim: &Claim) -> impl Future<Output = Verdict> {
        let at = Failure::new(format!("{} was not held when it was released", claim.name));
        self.ended(claim, ReleaseMode::Plain, ReleaseOutcome::Released, at)
    }

    #[track_caller]
    pub(crate) fn release_all<'a>(
        &self,
        claims: impl IntoIterator<Item = &'a Claim>,
    ) -> impl Future<Output = Verdict> {
        let mut releasing = Vec::new();
        for claim in claims {
            releasing.push(self.release(claim));
        }
        in_turn(releasing)
    }

    #[track_caller]
    pub(crate) fn not_released(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
    ) -> impl Future<Output = Verdict> {
        let at = Failure::new(format!("a claim of {} that isn't held was released", claim.name));
        self.ended(claim, release_mode, ReleaseOutcome::NotHeld, at)
    }

    async fn ended(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        expected: ReleaseOutcome,
        at: Failure,
    ) -> Verdict {
        let outcome = self.backend.release(claim, release_mode).await?;
        if outcome == expected { Ok(()) } else { Err(at) }
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Verdict<RenewalOutcome> {
        let mut answers = self.backend.renew(&[Renew::of(claim)]).await?;
        match (answers.pop(), answers.is_empty()) {
            (Some(Renewal { outcome, .. }), true) => Ok(outcome),
            _ => Err(Failure::new("a renewal of one hold was not answered by one renewal")),
        }
    }

    #[track_caller]
    pub(crate) fn renewed(&self, claim: &Claim) -> impl Future<Output = Verdict> {
        let at = Failure::new(format!("a live hold of {} was not renewed", claim.name));
        async move {
            match self.renew(claim).await? {
                RenewalOutcome::Renewed { .. } => Ok(()),
                outcome => Err(at.because_of(&outcome)),
            }
        }
    }

    #[track_caller]
    pub(crate) fn not_renewed(&self, claim: &Claim) -> impl Future<Output = Verdict> {
        let at = Failure::new(format!("a claim of {} that isn't held was renewed", claim.name));
        async move {
            match self.renew(claim).await? {
                RenewalOutcome::NotHeld(_) => Ok(()),
                outcome => Err(at.because_of(&outcome)),
            }
        }
    }

    pub(crate) async fn break_hold(&self, claim: &Claim, how: BreakMode) -> Result<Broken> {
        self.break_seen(&claim.name, BreakTarget::Token(claim.token), how).await
    }

    pub(crate) async fn break_seen(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
    ) -> Result<Broken> {
        self.backend.break_lock(name, seen, how, "the suite", "to see").await
    }

    /// Waits at most half of `slow_poll` for the grant, so that only a wake-up can cause it.
    #[track_caller]
    pub(crate) fn woken<T>(
        &self,
        waiting: JoinHandle<Result<T>>,
    ) -> impl Future<Output = Verdict<T>> {
        let poll = self.profile.slow_poll;
        let at = Failure::late(format!("no waiter was woken within its poll interval of {poll:?}"));
        async move { Ok(timeout(poll / 2, waiting).await.map_err(|_| at)???) }
    }

    /// Also releases the holds.
    pub(crate) async fn all_woken<H: Held>(
        &self,
        waiting: impl IntoIterator<Item = JoinHandle<Result<H>>>,
    ) -> Verdict {
        let mut holds = Vec::new();
        for waiting in waiting {
            holds.push(self.woken(waiting).await?);
        }
        all_released(holds).await
    }

    /// Checks that `work` is stopped because its hold was broken.
    pub(crate) async fn is_stopped(&self, work: impl Future<Output = Result<Verdict>>) -> Verdict {
        match timeout(self.patience(), work).await {
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
}

async fn in_turn<T>(steps: Vec<impl Future<Output = Verdict<T>>>) -> Verdict {
    for step in steps {
        step.await?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) granted: Granted,
    pub(crate) sent: BootInstant,
    pub(crate) answered: BootInstant,
}

/// Tries at most three times, each with a new name: a busy machine can make an attempt fail.
pub(crate) async fn soon(attempt: impl AsyncFn(&'static str) -> Verdict) -> Verdict {
    for name in ["x0", "x1"] {
        if attempt(name).await.is_ok() {
            return Ok(());
        }
    }
    attempt("x2").await
}

pub(crate) async fn all_released<H: Held>(holds: Vec<H>) -> Verdict {
    for hold in holds {
        hold.check()?;
        hold.release().await?;
    }
    Ok(())
}

pub(crate) async fn all_done(mut tasks: JoinSet<Verdict>) -> Verdict {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

#[derive(Default)]
pub(crate) struct Waiters {
    pub(crate) tasks: Vec<JoinHandle<Verdict>>,
    served: Arc<Mutex<Vec<usize>>>,
}

impl Waiters {
    pub(crate) fn start(&mut self, guard: impl Future<Output = Result<Guard>> + Send + 'static) {
        let (number, served) = (self.tasks.len(), Arc::clone(&self.served));
        self.tasks.push(tokio::spawn(async move {
            let guard = guard.await?;
            lock(&served).push(number);
            Ok(guard.release().await?)
        }));
    }

    /// Aborted tasks may be missing.
    pub(crate) async fn are_served(self, order: &[usize]) -> Verdict {
        for task in self.tasks {
            match task.await {
                Err(error) if error.is_cancelled() => {}
                done => done??,
            }
        }
        let served = lock(&self.served);
        ensure!(*served == order, "the waiters were served in the order {served:?}");
        Ok(())
    }
}

#[track_caller]
pub(crate) fn fails<T: fmt::Debug>(answer: Result<T>, kind: ErrorKind) -> Verdict {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        other => Err(Failure::new(format!("the answer is not {kind:?}")).because_of(&other)),
    }
}

#[track_caller]
pub(crate) fn is_lost<T: fmt::Debug>(answer: Result<T>) -> Verdict {
    match answer {
        Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok(()),
        other => Err(Failure::new("the answer reports no loss").because_of(&other)),
    }
}
