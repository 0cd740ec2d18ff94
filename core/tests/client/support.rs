//! Clients on a clock that the test moves, and a backend with injected faults.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, Error, ErrorKind, Guard, Locks, Profile, Result};
use lockwright_memory::Memory;
use tokio::runtime::{Builder, Runtime};

pub(crate) use lockwright_conformance::faults::{Fate, Faulty, Op};

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) const fn secs(seconds: u64) -> Duration {
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

pub(crate) const UNAVAILABLE: Fate = Fate::UNAVAILABLE;

pub(crate) fn faulty_memory(memory: &Memory, clock: &Clock) -> Faulty {
    Faulty::new(Arc::new(memory.clone()), clock.clone())
}

/// Returns a client with injected faults, and a plain client on the same store.
pub(crate) fn troubled() -> (Locks, Faulty, Locks, Memory, Clock) {
    troubled_with(|_| {})
}

pub(crate) fn troubled_with(
    change: impl FnOnce(&mut Profile),
) -> (Locks, Faulty, Locks, Memory, Clock) {
    let clock = Clock::tokio();
    let memory = Memory::with_clock(clock.clone());
    let faulty = faulty_memory(&memory, &clock).with_profile(change);
    let locks = Locks::builder(faulty.clone()).ttl(TTL).clock(clock.clone()).build().unwrap();
    let other = another_client(&memory, &clock);
    (locks, faulty, other, memory, clock)
}

pub(crate) fn silence(faulty: &Faulty, is_silent: bool) {
    for op in [Op::Acquire, Op::Release] {
        faulty.always(op, if is_silent { Fate::Hang } else { Fate::Pass });
    }
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

/// Returns a runtime with its own thread, and two clients on this runtime that share a store.
pub(crate) fn two_clients_elsewhere(ttl: Duration) -> (Runtime, Locks, Locks) {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    let memory = Memory::new();
    let build = || {
        let faulty = faulty_memory(&memory, &Clock::boot());
        Locks::builder(faulty).ttl(ttl).runtime(runtime.handle().clone()).build().unwrap()
    };
    let (locks, other) = (build(), build());
    (runtime, locks, other)
}

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// Runs all ready tasks without moving the clock.
pub(crate) async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
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
