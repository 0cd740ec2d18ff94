pub(crate) use std::sync::Arc;
pub(crate) use std::time::{Duration, Instant};

pub(crate) use lockwright_conformance::test_helpers::{
    FOR_EVER, LIMIT, busy, claim, claim_for, events, eventually, fails_with as refused, grant,
    name, next,
};
use lockwright_core::Result;
use lockwright_core::fencing::Fenced;

pub(crate) use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Clock, DistributedLock, Error,
    ErrorKind, Event, Events, Fence, Granted, Guard, HoldState, Locks, Mode, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, RenewalOutcome, Severity, SweepReport, Token, Wait, WakeUp,
};
pub(crate) use lockwright_testbed::{Proxy, proxy::Traffic};
pub(crate) use tokio::task::{JoinHandle, JoinSet};
pub(crate) use tokio::time::{sleep, timeout};

/// The modes whose holds are in sessions.
pub(crate) const MODES: [&str; 2] = ["session", "row"];

pub(crate) const ALL_MODES: [&str; 3] = ["lease", "session", "row"];

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn in_mode(url: &str, mode: &str) -> String {
    format!("{url}?mode={mode}")
}

pub(crate) fn in_time(time: Duration) -> Wait {
    Wait::Until(Clock::boot().now() + time)
}

pub(crate) fn reader(of: &str, ttl: Duration) -> Claim {
    Claim { mode: Mode::Shared, ..claim_for(of, ttl) }
}

pub(crate) fn fenced(of: &str, fence: u64) -> Fenced {
    Fenced { name: name(of), fence: Fence::new(fence) }
}

pub(crate) async fn is_busy(backend: &dyn DistributedLock, claim: &Claim) -> bool {
    matches!(backend.try_acquire(claim).await.unwrap(), AcquireOutcome::Busy(_))
}

pub(crate) async fn hold(backend: &dyn DistributedLock, of: &str) -> Claim {
    let claim = claim_for(of, LONG);
    grant(backend, &claim).await;
    claim
}

pub(crate) async fn renew(backend: &dyn DistributedLock, claim: &Claim) -> Renewal {
    let mut renewals = backend.renew(&[Renew::of(claim)]).await.unwrap();
    assert_eq!(renewals.len(), 1);
    renewals.remove(0)
}

/// Acquires and releases a free name, so that the name has a row.
pub(crate) async fn acquire_and_release(backend: &dyn DistributedLock, of: &str) {
    release(backend, &hold(backend, of).await).await;
}

pub(crate) fn acquiring<B: DistributedLock + ?Sized>(
    backend: &Arc<B>,
    claim: &Claim,
    wait: Wait,
) -> JoinHandle<Result<AcquireOutcome>> {
    let (backend, claim) = (Arc::clone(backend), claim.clone());
    tokio::spawn(async move { backend.acquire(&claim, wait).await })
}

pub(crate) fn renewing<B: DistributedLock>(backend: &Arc<B>, claim: &Claim) -> JoinHandle<Renewal> {
    let (backend, claim) = (Arc::clone(backend), claim.clone());
    tokio::spawn(async move { renew(&*backend, &claim).await })
}

pub(crate) async fn release(backend: &dyn DistributedLock, claim: &Claim) {
    assert_eq!(backend.release(claim, ReleaseMode::Plain).await.unwrap(), ReleaseOutcome::Released);
}

pub(crate) async fn is_free(backend: &dyn DistributedLock, of: &str) -> bool {
    is_free_for(backend, &claim_for(of, LONG)).await
}

pub(crate) async fn can_read(backend: &dyn DistributedLock) -> bool {
    is_free_for(backend, &reader("x", LONG)).await
}

async fn is_free_for(backend: &dyn DistributedLock, claim: &Claim) -> bool {
    let free = !is_busy(backend, claim).await;
    if free {
        backend.release(claim, ReleaseMode::Plain).await.unwrap();
    }
    free
}

pub(crate) async fn waiters(backend: &dyn DistributedLock, of: &str) -> u64 {
    backend.inspect(&name(of)).await.unwrap().waiters.unwrap_or_default()
}

pub(crate) async fn until_one_waits(backend: &dyn DistributedLock) {
    within(ms(5_000), "the waiter to block", async || waiters(backend, "x").await == 1).await;
}

pub(crate) async fn break_x(
    backend: &dyn DistributedLock,
    token: impl Into<Option<Token>>,
    how: BreakMode,
) -> Result<Broken> {
    let seen = token.into().map_or(BreakTarget::Any, BreakTarget::Token);
    backend.break_lock(&name("x"), seen, how, "ada", "stuck").await
}

pub(crate) async fn granted(request: JoinHandle<Result<AcquireOutcome>>) -> Granted {
    let answer = tokio::time::timeout(LIMIT, request).await.expect("the request ends in time");
    match answer.unwrap().unwrap() {
        AcquireOutcome::Granted(granted) => granted,
        AcquireOutcome::Busy(busy) => panic!("{busy:?}"),
    }
}

pub(crate) async fn findings(backend: &dyn DistributedLock) -> Vec<&'static str> {
    backend.doctor().await.unwrap().into_iter().map(|finding| finding.code).collect()
}

pub(crate) async fn within(
    limit: Duration,
    what: &str,
    mut done: impl AsyncFnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !done().await {
        assert!(start.elapsed() < limit, "late: waited {limit:?} for {what}");
        tokio::time::sleep(ms(5)).await;
    }
    start.elapsed()
}
