//! Network faults injected around any backend.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    AcquireOutcome, BootInstant, Claim, Clock, DistributedLock, Error, ErrorKind, Event, Events,
    Inspection, LockName, Profile, ReleaseMode, ReleaseOutcome, Renew, Renewal, RenewalOutcome,
    Result, SweepReport, Token, Wait, async_trait, delegate,
};
use tokio::sync::Notify;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`DistributedLock::acquire`].
    Acquire,
    /// [`DistributedLock::renew`].
    Renew,
    /// [`DistributedLock::release`].
    Release,
    /// [`DistributedLock::swap`].
    Swap,
    /// [`DistributedLock::inspect`].
    Inspect,
}

/// The fate of a request to a [`Faulty`] backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server processes and answers the request.
    Pass,
    /// The server rejects the request unprocessed, with this kind of error.
    Refuse(ErrorKind),
    /// The request is lost, and fails as indeterminate.
    LoseRequest,
    /// The server processes the request, but its answer is lost.
    LoseAnswer,
    /// The request fails as indeterminate, but reaches the server after this time.
    DelayRequest(Duration),
    /// The server processes the request, and answers after this time.
    DelayAnswer(Duration),
    /// The server receives the request after this time, and answers it.
    Slow(Duration),
    /// The server processes the request at once, and again after this time.
    Duplicate(Duration),
    /// The request is lost, and the call never returns.
    Hang,
    /// Like `Hang`, but the call is woken once after this time.
    HangAfter(Duration),
    /// The server processes the request, and the call never returns.
    DoAndHang,
    /// The backend panics.
    Panic,
    /// The grant's reported start is this long ago.
    StartBefore(Duration),
    /// The grant's reported start is this far in the future.
    StartAfter(Duration),
    /// A grant or renewal reports this validity.
    Valid(Duration),
    /// A renewal's answer has at most this many results.
    Short(usize),
}

impl Fate {
    /// The server rejects the request as unavailable.
    pub const UNAVAILABLE: Self = Self::Refuse(ErrorKind::Unavailable);
}

/// A request that a [`Faulty`] backend received.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The kind of request.
    pub op: Op,
    /// The time of the request.
    pub at: BootInstant,
    /// The token of the claim, or of the first hold. Zero if the request has none.
    pub token: Token,
    /// The number of holds in the request.
    pub count: usize,
    /// True for an acquire that may wait in the server.
    pub waits: bool,
    /// The mode of a release.
    pub release_mode: Option<ReleaseMode>,
}

/// A backend with injected faults, which its clones share.
#[derive(Clone)]
pub struct Faulty(Arc<Inner>);

struct Inner {
    backend: Arc<dyn DistributedLock>,
    profile: Profile,
    clock: Clock,
    state: State,
}

#[derive(Default)]
struct State {
    plan: Mutex<Plan>,
    calls: Mutex<Vec<Call>>,
    sweeps: Mutex<Vec<(BootInstant, Duration)>>,
    clients: Mutex<Vec<Events>>,
    called: Notify,
    under_way: AtomicUsize,
    drop_wakes: AtomicBool,
    yields: AtomicBool,
    answers_at_once: AtomicBool,
}

const NO_TOKEN: Token = Token::from_bytes([0; 16]);

type Decide = Box<dyn FnMut(Op) -> Fate + Send>;

#[derive(Default)]
struct Plan {
    next: HashMap<Op, VecDeque<Fate>>,
    always: HashMap<Op, Fate>,
    decide: Option<Decide>,
    sweeps: VecDeque<Result<SweepReport>>,
}

impl Plan {
    fn fate(&mut self, op: Op) -> Fate {
        if let Some(fate) = self.next.get_mut(&op).and_then(VecDeque::pop_front) {
            return fate;
        }
        if let Some(fate) = self.always.get(&op) {
            return *fate;
        }
        self.decide.as_mut().map_or(Fate::Pass, |decide| decide(op))
    }
}

impl Faulty {
    /// Wraps `backend`, without faults.
    pub fn new(backend: Arc<dyn DistributedLock>, clock: Clock) -> Self {
        let mut profile = backend.profile().clone();
        // This wrapper may lose the request.
        profile.answer_limit = None;
        Self(Arc::new(Inner { backend, profile, clock, state: State::default() }))
    }

    /// Changes the profile.
    ///
    /// # Panics
    /// If this value was cloned.
    pub fn with_profile(mut self, change: impl FnOnce(&mut Profile)) -> Self {
        let inner = Arc::get_mut(&mut self.0).expect("the backend isn't cloned yet");
        change(&mut inner.profile);
        self
    }

    /// Sets the fates of the next `op` requests, after those already set.
    pub fn next(&self, op: Op, fates: impl IntoIterator<Item = Fate>) {
        lock(&self.0.state.plan).next.entry(op).or_default().extend(fates);
    }

    /// Sets the fate of `op` requests without a fate from [`next`](Self::next).
    pub fn always(&self, op: Op, fate: Fate) {
        lock(&self.0.state.plan).always.insert(op, fate);
    }

    /// Sets the answers to the next sweeps.
    pub fn next_sweeps(&self, answers: impl IntoIterator<Item = Result<SweepReport>>) {
        lock(&self.0.state.plan).sweeps.extend(answers);
    }

    /// Removes all faults.
    pub fn mend(&self) {
        *lock(&self.0.state.plan) = Plan::default();
        self.0.state.drop_wakes.store(false, Ordering::SeqCst);
    }

    /// Sets the function that chooses all other fates.
    pub fn decide(&self, decide: impl FnMut(Op) -> Fate + Send + 'static) {
        lock(&self.0.state.plan).decide = Some(Box::new(decide));
    }

    /// Sets whether wake-ups and recalls are lost.
    pub fn drop_wakes(&self, drop: bool) {
        self.0.state.drop_wakes.store(drop, Ordering::SeqCst);
    }

    /// Sets whether calls yield to the runtime before and after the request.
    pub fn yields(&self, yields: bool) {
        self.0.state.yields.store(yields, Ordering::SeqCst);
    }

    /// Sets whether the backend may answer a request without a future; by default false.
    pub fn answers_at_once(&self, answers: bool) {
        self.0.state.answers_at_once.store(answers, Ordering::SeqCst);
    }

    /// Sends an event to this connection's clients.
    pub fn send_event(&self, event: &Event) {
        let clients = lock(&self.0.state.clients).clone();
        for client in clients {
            client.send(event.clone());
        }
    }

    /// Returns the `op` requests so far.
    pub fn calls(&self, op: Op) -> Vec<Call> {
        lock(&self.0.state.calls).iter().filter(|call| call.op == op).copied().collect()
    }

    /// Returns the time and argument of each sweep so far.
    pub fn sweeps(&self) -> Vec<(BootInstant, Duration)> {
        lock(&self.0.state.sweeps).clone()
    }

    /// Waits until `calls` requests of `op` were sent in total.
    pub async fn called(&self, op: Op, calls: usize) {
        loop {
            let mut called = std::pin::pin!(self.0.state.called.notified());
            called.as_mut().enable();
            if self.calls(op).len() >= calls {
                return;
            }
            called.await;
        }
    }

    /// Waits until no delayed request or duplicate is pending.
    pub async fn settled(&self) {
        while self.0.state.under_way.load(Ordering::SeqCst) > 0 {
            self.0.clock.sleep(Duration::from_millis(1)).await;
        }
    }

    async fn give_way(&self) {
        if self.0.state.yields.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }

    fn call(&self, op: Op, token: Token) -> Call {
        Call { op, at: self.0.clock.now(), token, count: 1, waits: false, release_mode: None }
    }

    /// Late requests and duplicates use the copy `again`.
    async fn send<T>(
        &self,
        call: Call,
        request: impl Future<Output = Result<T>>,
        again: impl Future<Output: Send> + Send + 'static,
    ) -> (Fate, Result<T>) {
        let fate = lock(&self.0.state.plan).fate(call.op);
        lock(&self.0.state.calls).push(call);
        self.0.state.called.notify_waiters();
        self.give_way().await;
        let answer = match fate {
            Fate::Refuse(kind) => Err(refused(kind)),
            Fate::LoseRequest => Err(Error::indeterminate("the request was lost")),
            Fate::LoseAnswer => {
                let _ = request.await;
                Err(answer_lost())
            }
            Fate::DelayRequest(time) => {
                self.later(time, again);
                Err(Error::indeterminate("the request is late"))
            }
            Fate::DelayAnswer(time) => {
                let answer = request.await;
                self.0.clock.sleep(time).await;
                answer
            }
            Fate::Slow(time) => {
                self.0.clock.sleep(time).await;
                request.await
            }
            Fate::Duplicate(time) => {
                self.later(time, again);
                request.await
            }
            Fate::Hang => pending().await,
            Fate::HangAfter(time) => {
                // `Clock::sleep` would wake the call more often.
                tokio::time::sleep(time).await;
                pending().await
            }
            Fate::DoAndHang => {
                let _ = request.await;
                pending().await
            }
            Fate::Panic => injected_panic(),
            Fate::Pass
            | Fate::StartBefore(_)
            | Fate::StartAfter(_)
            | Fate::Valid(_)
            | Fate::Short(_) => request.await,
        };
        self.give_way().await;
        (fate, answer)
    }

    /// Applies the next planned fate to a request without a future. If the fate needs a future,
    /// discards it and returns `None`; the call's future takes the next one.
    fn send_at_once<T>(
        &self,
        op: Op,
        request: impl FnOnce() -> Option<Result<T>>,
    ) -> Option<Result<T>> {
        if !self.0.state.answers_at_once.load(Ordering::SeqCst) {
            return None;
        }
        let fate = lock(&self.0.state.plan).fate(op);
        match fate {
            Fate::Pass => request(),
            Fate::Refuse(kind) => Some(Err(refused(kind))),
            Fate::LoseAnswer => request().map(|_| Err(answer_lost())),
            Fate::Panic => injected_panic(),
            _ => None,
        }
    }

    fn restated(
        &self,
        (fate, mut answer): (Fate, Result<AcquireOutcome>),
    ) -> Result<AcquireOutcome> {
        if let Ok(AcquireOutcome::Granted(granted)) = &mut answer {
            let now = self.0.clock.now();
            match fate {
                Fate::StartBefore(time) => granted.start = Some(now - time),
                Fate::StartAfter(time) => granted.start = Some(now + time),
                Fate::Valid(time) => granted.valid = Some(time),
                _ => {}
            }
        }
        answer
    }

    fn later(&self, time: Duration, request: impl Future<Output: Send> + Send + 'static) {
        let this = self.clone();
        this.0.state.under_way.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            this.0.clock.sleep(time).await;
            request.await;
            this.0.state.under_way.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn refused(kind: ErrorKind) -> Error {
    Error::new(kind, "an injected fault: the request was refused")
}

fn answer_lost() -> Error {
    Error::indeterminate("the answer was lost")
}

fn injected_panic() -> ! {
    std::panic::resume_unwind(Box::new("an injected panic"))
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.0.backend).finish()
    }
}

#[async_trait]
impl DistributedLock for Faulty {
    fn profile(&self) -> &Profile {
        &self.0.profile
    }

    fn attach(&self, events: Events) {
        lock(&self.0.state.clients).push(events.clone());
        // The backend owns this closure: a strong reference would be a cycle.
        let this = Arc::downgrade(&self.0);
        self.0.backend.attach(Events::to(move |event| {
            let Some(this) = this.upgrade() else { return false };
            let lost = this.state.drop_wakes.load(Ordering::SeqCst)
                && matches!(event, Event::Wake(_) | Event::Recall(_));
            lost || events.send(event)
        }));
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), claim.clone());
        let again = async move { backend.acquire(&again, wait).await };
        let call = Call { waits: wait != Wait::No, ..self.call(Op::Acquire, claim.token) };
        self.restated(self.send(call, self.0.backend.acquire(claim, wait), again).await)
    }

    fn acquire_at_once(&self, claim: &Claim, now: BootInstant) -> Option<Result<AcquireOutcome>> {
        self.send_at_once(Op::Acquire, || self.0.backend.acquire_at_once(claim, now))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let backend = Arc::clone(&self.0.backend);
        let again: Vec<Claim> = holds.iter().map(|hold| hold.claim.clone()).collect();
        let again = async move {
            let holds: Vec<_> = again.iter().map(Renew::of).collect();
            let _ = backend.renew(&holds).await;
        };
        let token = holds.first().map_or(NO_TOKEN, |hold| hold.claim.token);
        let call = Call { count: holds.len(), ..self.call(Op::Renew, token) };
        let (fate, mut answer) = self.send(call, self.0.backend.renew(holds), again).await;
        if let Ok(renewals) = &mut answer {
            match fate {
                Fate::Short(count) => renewals.truncate(count),
                Fate::Valid(time) => {
                    for renewal in renewals {
                        renewal.outcome = RenewalOutcome::Renewed { valid: Some(time) };
                    }
                }
                _ => {}
            }
        }
        answer
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), claim.clone());
        let again = async move { backend.release(&again, release_mode).await };
        let release = self.0.backend.release(claim, release_mode);
        let release_mode = Some(release_mode);
        let call = Call { release_mode, ..self.call(Op::Release, claim.token) };
        self.send(call, release, again).await.1
    }

    fn release_at_once(
        &self,
        claim: &Claim,
        release_mode: ReleaseMode,
        now: BootInstant,
    ) -> Option<Result<ReleaseOutcome>> {
        let backend = &self.0.backend;
        self.send_at_once(Op::Release, || backend.release_at_once(claim, release_mode, now))
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), to.clone());
        let again = async move { backend.swap(from, &again).await };
        let call = self.call(Op::Swap, to.token);
        self.restated(self.send(call, self.0.backend.swap(from, to), again).await)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let (backend, again) = (Arc::clone(&self.0.backend), name.clone());
        let again = async move { backend.inspect(&again).await };
        let call = self.call(Op::Inspect, NO_TOKEN);
        self.send(call, self.0.backend.inspect(name), again).await.1
    }

    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        lock(&self.0.state.sweeps).push((self.0.clock.now(), idle));
        let planned = lock(&self.0.state.plan).sweeps.pop_front();
        match planned {
            Some(answer) => answer,
            None => self.0.backend.sweep(idle).await,
        }
    }

    delegate!(|this| this.0.backend; list, break_lock, doctor);
}
