//! Helpers for the tests of backends.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, Busy, Claim, DistributedLock, Event, Events, Granted, Identity, LockName, Mode,
    RenewalMode, Token, Wait,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A time limit that is reached only on failure.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Returns a lock name.
pub fn name(name: &str) -> LockName {
    LockName::new(name).expect("the test's name is valid")
}

/// Returns a claim whose TTL outlasts a test.
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
    }
}

/// Acquires a free lock.
#[track_caller]
pub fn grant<'a>(
    backend: &'a dyn DistributedLock,
    claim: &'a Claim,
) -> impl Future<Output = Granted> + Send + 'a {
    let asked_for = std::panic::Location::caller();
    async move {
        match backend.try_acquire(claim).await {
            Ok(AcquireOutcome::Granted(granted)) => granted,
            other => panic!("requested at {asked_for}: {other:?}"),
        }
    }
}

/// Requests a held lock, which must not be granted.
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

/// Returns a receiver of the backend's further events.
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

/// Polls `ask` until it returns a value.
pub async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
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
