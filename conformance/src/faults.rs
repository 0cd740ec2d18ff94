//! Network faults injected around any backend.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Error, Event, Events, Profile, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, Result, Token, Wait, async_trait, delegate,
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
}

/// The fate of a request to a [`Faulty`] backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The server processes and answers the request.
    Pass,
    /// The server rejects the request unprocessed.
    Refuse,
    /// The request is lost, and fails as indeterminate.
    LoseRequest,
    /// The server processes the request. Its answer is lost.
    LoseAnswer,
    /// The request fails as indeterminate, but reaches the server after this time.
    DelayRequest(Duration),
    /// The server processes the request, and answers after this time.
    DelayAnswer(Duration),
    /// The server processes the request at once, and again after this time.
    Duplicate(Duration),
    /// The request is lost, and the call never returns.
    Hang,
    /// The backend panics.
    Panic,
}

/// A backend with injected faults, which its clones share.
#[derive(Clone)]
pub struct Faulty(Arc<Inner>);

struct Inner {
    backend: Arc<dyn DistributedLock>,
    profile: Profile,
    clock: Clock,
    plan: Mutex<Plan>,
    /// The numbers of calls, by `Op`.
    calls: [AtomicUsize; 4],
    called: Notify,
    under_way: AtomicUsize,
    drop_wakes: AtomicBool,
    yields: AtomicBool,
}

type Decide = Box<dyn FnMut(Op) -> Fate + Send>;

#[derive(Default)]
struct Plan {
    next: Vec<(Op, VecDeque<Fate>)>,
    always: Vec<(Op, Fate)>,
    decide: Option<Decide>,
}

impl Plan {
    fn fate(&mut self, op: Op) -> Fate {
        let next = self.next.iter_mut().find(|(of, _)| *of == op);
        if let Some(fate) = next.and_then(|(_, fates)| fates.pop_front()) {
            return fate;
        }
        if let Some((_, fate)) = self.always.iter().find(|(of, _)| *of == op) {
            return *fate;
        }
        self.decide.as_mut().map_or(Fate::Pass, |decide| decide(op))
    }
}

impl Faulty {
    /// Wraps `backend`, without faults.
    pub fn new(backend: Arc<dyn DistributedLock>, clock: Clock) -> Self {
        let mut profile = backend.profile().clone();
        // The backend answers within its `answer_limit`, but this wrapper may lose the request.
        profile.answer_limit = None;
        Self(Arc::new(Inner {
            backend,
            profile,
            clock,
            plan: Mutex::default(),
            calls: Default::default(),
            called: Notify::new(),
            under_way: AtomicUsize::new(0),
            drop_wakes: AtomicBool::new(false),
            yields: AtomicBool::new(false),
        }))
    }

    /// Sets the fates of the next `op` requests, after those already set.
    pub fn next(&self, op: Op, fates: impl IntoIterator<Item = Fate>) {
        let mut plan = lock(&self.0.plan);
        match plan.next.iter_mut().find(|(of, _)| *of == op) {
            Some((_, queue)) => queue.extend(fates),
            None => plan.next.push((op, fates.into_iter().collect())),
        }
    }

    /// Sets the fate of all `op` requests without a fate from [`next`](Self::next).
    pub fn always(&self, op: Op, fate: Fate) {
        let mut plan = lock(&self.0.plan);
        plan.always.retain(|(of, _)| *of != op);
        plan.always.push((op, fate));
    }

    /// Removes all faults.
    pub fn mend(&self) {
        *lock(&self.0.plan) = Plan::default();
        self.0.drop_wakes.store(false, Ordering::SeqCst);
    }

    /// Sets the function that chooses fates where neither `next` nor `always` applies.
    pub fn decide(&self, decide: impl FnMut(Op) -> Fate + Send + 'static) {
        lock(&self.0.plan).decide = Some(Box::new(decide));
    }

    /// Sets whether wake-ups are lost.
    pub fn drop_wakes(&self, drop: bool) {
        self.0.drop_wakes.store(drop, Ordering::SeqCst);
    }

    /// Sets whether calls yield to the runtime before and after the request.
    pub fn yields(&self, yields: bool) {
        self.0.yields.store(yields, Ordering::SeqCst);
    }

    /// Returns the number of `op` requests so far.
    pub fn calls(&self, op: Op) -> usize {
        self.0.calls[op as usize].load(Ordering::SeqCst)
    }

    /// Waits until `calls` requests of `op` were sent in total.
    pub async fn called(&self, op: Op, calls: usize) {
        loop {
            let mut called = std::pin::pin!(self.0.called.notified());
            called.as_mut().enable();
            if self.calls(op) >= calls {
                return;
            }
            called.await;
        }
    }

    /// Returns whether delayed requests or duplicates are pending.
    pub fn is_under_way(&self) -> bool {
        self.0.under_way.load(Ordering::SeqCst) > 0
    }

    async fn give_way(&self) {
        if self.0.yields.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }

    /// Applies the planned fate to `request`. `again` is a copy for later sending.
    async fn send<T>(
        &self,
        op: Op,
        request: impl Future<Output = Result<T>>,
        again: impl Future<Output: Send> + Send + 'static,
    ) -> Result<T> {
        let fate = lock(&self.0.plan).fate(op);
        self.0.calls[op as usize].fetch_add(1, Ordering::SeqCst);
        self.0.called.notify_waiters();
        self.give_way().await;
        let answer = match fate {
            Fate::Pass => request.await,
            Fate::Refuse => {
                Err(Error::unavailable("the server refused the request (an injected fault)"))
            }
            Fate::LoseRequest => Err(Error::indeterminate("the request was lost")),
            Fate::LoseAnswer => {
                let _ = request.await;
                Err(Error::indeterminate("the answer was lost"))
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
            Fate::Duplicate(time) => {
                self.later(time, again);
                request.await
            }
            Fate::Hang => std::future::pending().await,
            // Unlike `panic!`, this prints no message.
            Fate::Panic => std::panic::resume_unwind(Box::new("an injected panic")),
        };
        self.give_way().await;
        answer
    }

    fn later(&self, time: Duration, request: impl Future<Output: Send> + Send + 'static) {
        let this = self.clone();
        this.0.under_way.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            this.0.clock.sleep(time).await;
            request.await;
            this.0.under_way.fetch_sub(1, Ordering::SeqCst);
        });
    }
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
        // The backend owns this closure, so a strong reference would create a cycle.
        let this = Arc::downgrade(&self.0);
        self.0.backend.attach(Events::to(move |event| {
            let Some(this) = this.upgrade() else { return false };
            let lost = this.drop_wakes.load(Ordering::SeqCst) && matches!(event, Event::Wake(_));
            lost || events.send(event)
        }));
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), claim.clone());
        let again = async move { backend.acquire(&again, wait).await };
        self.send(Op::Acquire, self.0.backend.acquire(claim, wait), again).await
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let backend = Arc::clone(&self.0.backend);
        let again: Vec<(Claim, u32)> =
            holds.iter().map(|hold| (hold.claim.clone(), hold.fences)).collect();
        let again = async move {
            let holds: Vec<_> = again
                .iter()
                .map(|(claim, fences)| Renew { fences: *fences, ..Renew::of(claim) })
                .collect();
            let _ = backend.renew(&holds).await;
        };
        self.send(Op::Renew, self.0.backend.renew(holds), again).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), claim.clone());
        let again = async move { backend.release(&again, release_mode).await };
        self.send(Op::Release, self.0.backend.release(claim, release_mode), again).await
    }

    async fn swap(&self, from: Token, to: &Claim) -> Result<AcquireOutcome> {
        let (backend, again) = (Arc::clone(&self.0.backend), to.clone());
        let again = async move { backend.swap(from, &again).await };
        self.send(Op::Swap, self.0.backend.swap(from, to), again).await
    }

    delegate!(|this| this.0.backend; inspect, list, break_lock, sweep, doctor);
}
