//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    Attempt, Busy, Claim, DistributedLock, Event, Events, Granted, Identity, LockName, Mode, Token,
    Upkeep, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed as testbed;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Nobody waits this long unless something is wrong.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A client whose time-outs no busy machine reaches.
pub(crate) async fn connect(url: &str) -> Redis {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT)
}

pub(crate) async fn server_and_client() -> (testbed::Redis, Redis) {
    let server = testbed::Redis::start().unwrap();
    let redis = connect(&server.url()).await;
    (server, redis)
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn claim(locked: &str) -> Claim {
    claim_for(locked, Duration::from_secs(30))
}

pub(crate) fn claim_for(locked: &str, ttl: Duration) -> Claim {
    Claim {
        name: name(locked),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        ttl,
        fences: 1,
        upkeep: Upkeep::Renewed,
    }
}

pub(crate) async fn grant(redis: &Redis, claim: &Claim) -> Granted {
    match redis.try_acquire(claim).await.unwrap() {
        Attempt::Granted(granted) => granted,
        Attempt::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(crate) async fn busy(redis: &Redis, claim: &Claim, wait: Wait) -> Busy {
    match redis.acquire(claim, wait).await.unwrap() {
        Attempt::Busy(busy) => busy,
        Attempt::Granted(granted) => panic!("granted: {granted:?}"),
    }
}

/// The events that `redis` sends from here on.
pub(crate) fn events(redis: &Redis) -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    redis.attach(Events::to(move |event| sender.send(event).is_ok()));
    receiver
}

pub(crate) async fn next(events: &mut UnboundedReceiver<Event>) -> Event {
    tokio::time::timeout(LIMIT, events.recv())
        .await
        .expect("an event comes")
        .expect("the backend lives")
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, asking).await.expect("it happens")
}
