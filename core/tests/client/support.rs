//! Clients on a clock that the test moves, and a backend with scripted failures.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, BreakMode, BreakTarget, Broken, Claim, Clock, Cursor,
    DistributedLock, Error, ErrorKind, Events, Finding, Guard, Inspection, LockName, Locks, Page,
    Profile, ReleaseMode, ReleaseOutcome, Renew, Renewal, Result, SweepReport, Token, Wait,
    async_trait,
};
use lockwright_memory::Memory;
use tokio::time::sleep;

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn client() -> (Locks, Memory, Clock) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    (another_client(&memory, &clock), memory, clock)
}

pub(crate) fn another_client(memory: &Memory, clock: &Clock) -> Locks {
    Locks::builder(memory.clone()).ttl(TTL).clock(clock.clone()).build().unwrap()
}

/// Returns a client with scripted failures, and a plain client on the same store.
pub(crate) fn troubled() -> (Locks, Stage, Locks, Memory, Clock) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let stage = Stage::new(&memory, &clock);
    let locks = Locks::builder(stage.clone()).ttl(TTL).clock(clock.clone()).build().unwrap();
    let other = another_client(&memory, &clock);
    (locks, stage, other, memory, clock)
}

pub(crate) async fn hold(locks: &Locks, many: u32) -> Vec<Guard> {
    let mut guards = Vec::new();
    for i in 0..many {
        guards.push(locks.mutex(format!("x/{i}")).acquire().await.unwrap());
    }
    guards
}

pub(crate) async fn fails<T>(answer: impl Future<Output = Result<T>>, kind: ErrorKind) -> Error {
    let error = answer.await.err().expect("it fails");
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

pub(crate) fn polled<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(poll_once(&mut future).is_none());
    future
}

/// Runs all ready tasks without moving the clock.
pub(crate) async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    Pass,
    /// The request is executed at once, and answered after this time.
    AnswerLate(Duration),
    /// The request is executed after this time, and then answered.
    Slow(Duration),
    AnswerLost,
    /// The request arrives after this time. The caller gets an indeterminate error at once.
    ArriveLate(Duration),
    Vanish,
    /// The request never arrives. Its future wakes up once after this time, without an answer.
    SilentAfter(Duration),
    DoneAndSilent,
    Refuse(ErrorKind),
    Panic,
    /// The answer says that the hold started this long ago.
    StartBefore(Duration),
    /// The answer says that the hold starts in the future, after this time.
    StartAfter(Duration),
    Valid(Duration),
    Short(usize),
    DoneAndPanic,
    /// Other tasks run before and after the execution.
    Yield,
}

impl Act {
    /// Executes a request, except one that arrives late: the caller must execute that.
    pub(crate) async fn perform<T: Send>(
        self,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match self {
            Self::Slow(time) => sleep(time).await,
            Self::Yield => tokio::task::yield_now().await,
            Self::Vanish => pending().await,
            Self::SilentAfter(time) => {
                sleep(time).await;
                pending().await
            }
            Self::ArriveLate(_) => return Err(Error::indeterminate("no answer")),
            Self::Refuse(kind) => return Err(Error::new(kind, "refused")),
            Self::Panic => panic!("the backend is broken"),
            _ => {}
        }
        let answer = call.await;
        match self {
            Self::AnswerLate(time) => sleep(time).await,
            Self::Yield => tokio::task::yield_now().await,
            Self::DoneAndSilent => pending().await,
            Self::AnswerLost => return Err(Error::indeterminate("the answer was lost")),
            Self::DoneAndPanic => panic!("the backend is broken"),
            _ => {}
        }
        answer
    }
}

pub(crate) const UNAVAILABLE: Act = Act::Refuse(ErrorKind::Unavailable);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Call {
    pub(crate) what: &'static str,
    pub(crate) at: BootInstant,
    pub(crate) token: Token,
    pub(crate) count: usize,
    pub(crate) release_mode: Option<ReleaseMode>,
}

#[derive(Debug, Clone)]
pub(crate) struct Stage(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: Memory,
    clock: Clock,
    profile: Mutex<&'static Profile>,
    kept: Mutex<Option<Box<dyn Any + Send>>>,
    script: Mutex<Script>,
    events: Mutex<Option<Events>>,
}

#[derive(Debug, Default)]
struct Script {
    acts: HashMap<&'static str, VecDeque<Act>>,
    always: HashMap<&'static str, Act>,
    calls: Vec<Call>,
    sweep: VecDeque<Result<SweepReport>>,
    swept: Vec<(BootInstant, Duration)>,
}

impl Stage {
    pub(crate) fn new(memory: &Memory, clock: &Clock) -> Self {
        Self(Arc::new(Inner {
            memory: memory.clone(),
            clock: clock.clone(),
            profile: Mutex::new(Box::leak(Box::new(memory.profile().clone()))),
            kept: Mutex::default(),
            script: Mutex::default(),
            events: Mutex::default(),
        }))
    }

    pub(crate) fn promise(&self, change: impl FnOnce(&mut Profile)) {
        let mut profile = self.profile().clone();
        change(&mut profile);
        *self.0.profile.lock().unwrap() = Box::leak(Box::new(profile));
    }

    pub(crate) fn on(&self, what: &'static str, acts: impl IntoIterator<Item = Act>) {
        self.0.script.lock().unwrap().acts.entry(what).or_default().extend(acts);
    }

    pub(crate) fn keep(&self, what: impl Any + Send) {
        *self.0.kept.lock().unwrap() = Some(Box::new(what));
    }

    pub(crate) fn on_sweep(&self, answers: impl IntoIterator<Item = Result<SweepReport>>) {
        self.0.script.lock().unwrap().sweep.extend(answers);
    }

    pub(crate) fn swept(&self) -> Vec<(BootInstant, Duration)> {
        self.0.script.lock().unwrap().swept.clone()
    }

    pub(crate) fn on_every(&self, what: &'static str, act: Option<Act>) {
        let mut script = self.0.script.lock().unwrap();
        match act {
            Some(act) => script.always.insert(what, act),
            None => script.always.remove(what),
        };
    }

    pub(crate) fn is_silent(&self, is_silent: bool) {
        for what in ["acquire", "release"] {
            self.on_every(what, is_silent.then_some(Act::Vanish));
        }
    }

    pub(crate) fn calls(&self, what: &str) -> Vec<Call> {
        self.0.script.lock().unwrap().calls.iter().filter(|c| c.what == what).copied().collect()
    }

    pub(crate) fn events(&self) -> Events {
        self.0.events.lock().unwrap().clone().unwrap()
    }

    fn note(
        &self,
        what: &'static str,
        token: Token,
        count: usize,
        release_mode: Option<ReleaseMode>,
    ) -> Act {
        let mut script = self.0.script.lock().unwrap();
        script.calls.push(Call { what, at: self.0.clock.now(), token, count, release_mode });
        let always = script.always.get(what).copied();
        let next = script.acts.get_mut(what).and_then(VecDeque::pop_front);
        next.or(always).unwrap_or(Act::Pass)
    }

    fn stated(&self, act: Act, mut answer: Result<AcquireOutcome>) -> Result<AcquireOutcome> {
        if let Ok(AcquireOutcome::Granted(granted)) = &mut answer {
            let now = self.0.clock.now();
            match act {
                Act::StartBefore(time) => granted.start = Some(now - time),
                Act::StartAfter(time) => granted.start = Some(now + time),
                Act::Valid(time) => granted.valid = Some(time),
                _ => {}
            }
        }
        answer
    }
}

#[async_trait]
impl DistributedLock for Stage {
    fn profile(&self) -> &Profile {
        let profile: &'static Profile = *self.0.profile.lock().unwrap();
        profile
    }

    fn attach(&self, events: Events) {
        *self.0.events.lock().unwrap() = Some(events.clone());
        self.0.memory.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let act = self.note("acquire", claim.token, 1, None);
        if let Act::ArriveLate(time) = act {
            let (memory, claim) = (self.0.memory.clone(), claim.clone());
            tokio::spawn(async move {
                sleep(time).await;
                let _ = memory.acquire(&claim, Wait::No).await;
            });
        }
        let answer = act.perform(self.0.memory.acquire(claim, wait)).await;
        self.stated(act, answer)
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let act = self.note("swap", to.token, 1, None);
        let answer = act.perform(self.0.memory.swap(from, to)).await;
        self.stated(act, answer)
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let act = self.note("renew", holds[0].claim.token, holds.len(), None);
        let mut answer = act.perform(self.0.memory.renew(holds)).await;
        if let (Act::Short(count), Ok(renewals)) = (act, &mut answer) {
            renewals.truncate(count);
        }
        answer
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let act = self.note("release", claim.token, 1, Some(release_mode));
        act.perform(self.0.memory.release(claim, release_mode)).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        let act = self.note("inspect", Token::from_bytes([0; 16]), 1, None);
        act.perform(self.0.memory.inspect(name)).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.0.memory.list(prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        self.0.memory.break_lock(name, seen, how, by, reason).await
    }

    async fn sweep(&self, idle: Duration) -> Result<SweepReport> {
        let mut script = self.0.script.lock().unwrap();
        script.swept.push((self.0.clock.now(), idle));
        script.sweep.pop_front().unwrap_or(Ok(SweepReport::default()))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.0.memory.doctor().await
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);

    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        let mut cx = std::task::Context::from_waker(&waker);
        match future.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
