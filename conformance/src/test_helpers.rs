//! Helpers for backends' tests.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, BootInstant, Busy, Claim, DistributedLock, Error, ErrorKind, Event, Events,
    Granted, Identity, LockName, Mode, ReleaseMode, ReleaseOutcome, Renew, RenewalMode,
    RenewalOutcome, Result, Token, Wait,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A time limit that only failures reach.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A wait without a limit.
pub const FOR_EVER: Wait = Wait::Until(BootInstant::FAR_FUTURE);

/// Returns a lock name.
pub fn name(name: &str) -> LockName {
    LockName::new(name).expect("the test's name is valid")
}

/// Returns an exclusive claim whose TTL outlasts a test.
pub fn claim(locked: &str) -> Claim {
    claim_for(locked, Duration::from_secs(30))
}

/// Returns an exclusive claim.
pub fn claim_for(locked: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(locked),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        renewal_mode: RenewalMode::Auto,
        recall: false,
    }
}

/// Acquires a lock, and panics if it isn't free.
#[track_caller]
pub fn grant(backend: &dyn DistributedLock, claim: &Claim) -> impl Future<Output = Granted> + Send {
    granted(backend, claim, Wait::No)
}

/// Acquires a lock for `claim`, which must be first in the queue. Panics if it isn't granted.
#[track_caller]
pub fn grant_next(
    backend: &dyn DistributedLock,
    claim: &Claim,
) -> impl Future<Output = Granted> + Send {
    granted(backend, claim, FOR_EVER)
}

#[track_caller]
fn granted(
    backend: &dyn DistributedLock,
    claim: &Claim,
    wait: Wait,
) -> impl Future<Output = Granted> + Send {
    let asked_for = std::panic::Location::caller();
    async move {
        match backend.acquire(claim, wait).await {
            Ok(AcquireOutcome::Granted(granted)) => granted,
            other => panic!("requested at {asked_for}: {other:?}"),
        }
    }
}

/// Requests a held lock, and panics if it is granted.
#[track_caller]
pub fn busy<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
    wait: Wait,
) -> impl Future<Output = Busy> + Send + 'a {
    let asked_for = std::panic::Location::caller();
    async move {
        match backend.acquire(claim, wait).await {
            Ok(AcquireOutcome::Busy(busy)) => busy,
            other => panic!("requested at {asked_for}: {other:?}"),
        }
    }
}

/// Repeats a request until granted. Panics at a permanent error or after [`LIMIT`].
pub async fn granted_soon(backend: &dyn DistributedLock, claim: &Claim, wait: Wait) -> Granted {
    eventually(|| async {
        match backend.acquire(claim, wait).await {
            Ok(AcquireOutcome::Granted(granted)) => Some(granted),
            Err(error) if !error.is_transient() => panic!("{error:?}"),
            _ => None,
        }
    })
    .await
}

/// Renews a hold, and panics if it has ended.
#[track_caller]
pub fn renewed(backend: &dyn DistributedLock, claim: &Claim) -> impl Future<Output = ()> + Send {
    let asked_for = std::panic::Location::caller();
    async move {
        let renewals = backend.renew(&[Renew::of(claim)]).await;
        let is_renewed = matches!(
            renewals.as_deref(),
            Ok([one]) if matches!(one.outcome, RenewalOutcome::Renewed { .. })
        );
        assert!(is_renewed, "requested at {asked_for}: {renewals:?}");
    }
}

/// Releases a claim, and panics unless it was held or queued.
#[track_caller]
pub fn released<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
    release_mode: ReleaseMode,
) -> impl Future<Output = ()> + Send + 'a {
    let asked_for = std::panic::Location::caller();
    async move {
        let outcome = backend.release(claim, release_mode).await;
        let is_released = matches!(outcome, Ok(ReleaseOutcome::Released));
        assert!(is_released, "requested at {asked_for}: {outcome:?}");
    }
}

/// Returns the answer's error. Panics without an error of this kind.
#[track_caller]
pub fn fails<T: fmt::Debug>(answer: Result<T>, kind: ErrorKind) -> Error {
    let error = answer.expect_err("the request fails");
    assert_eq!(error.kind(), kind, "{error:?}");
    error
}

/// Like [`fails`], and panics unless the error contains `says`.
#[track_caller]
pub fn fails_with<T: fmt::Debug>(answer: Result<T>, kind: ErrorKind, says: &str) -> Error {
    let error = fails(answer, kind);
    assert!(error.to_string().contains(says), "{says:?} is missing: {error}");
    error
}

/// Returns the error. Panics if it or a cause contains the secret.
pub fn without_secret(error: Error, secret: &str) -> Error {
    let mut texts = vec![error.to_string(), format!("{error:?}"), format!("{error:#?}")];
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    for text in texts {
        assert!(!text.contains(secret), "{text}");
    }
    error
}

/// Returns a receiver of the backend's events from now on.
pub fn events(backend: &dyn DistributedLock) -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    backend.attach(Events::to(move |event| sender.send(event).is_ok()));
    receiver
}

/// Returns the next event.
pub async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
    let event = tokio::time::timeout(LIMIT, events.recv()).await;
    event.expect("an event is sent in time").expect("the backend still runs")
}

/// Returns the seeds of a simulation: `LOCKWRIGHT_SEEDS` (by default 1) from `LOCKWRIGHT_SEED` (by
/// default 0) on. If neither is set, returns the seeds below `default`.
pub fn seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("LOCKWRIGHT_SEED"), number("LOCKWRIGHT_SEEDS")) {
        (None, None) => 0..default,
        (first, many) => {
            let first = first.unwrap_or(0);
            first..first + many.unwrap_or(1)
        }
    }
}

/// Calls `ask` until it returns a value. Panics after [`LIMIT`].
pub async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, asking).await.expect("the request completes in time")
}
