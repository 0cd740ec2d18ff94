//! Tests with connections that silently lose all data.

use std::fmt;
use std::time::Duration;

use lockwright_core::Locks;
use tokio::time::{Instant, sleep, timeout};

const BOUND: Duration = Duration::from_secs(2);

/// A client whose connections can be silenced.
pub struct Client {
    locks: Locks,
    silence_present: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("locks", &self.locks).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. `silence_present` makes the client's open connections, but no later ones,
    /// lose all data.
    pub fn new(locks: Locks, silence_present: impl Fn() + Send + Sync + 'static) -> Self {
        Self { locks, silence_present: Box::new(silence_present) }
    }

    /// Acquires `name` once, to open a connection and prepare its statements.
    async fn warm(&self, name: &str, ttl: Duration) {
        let warm = self.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
        warm.release().await.unwrap();
    }
}

/// Tests that the client acquires a free lock within 2 s of the silence, by `acquire` if `waits`,
/// else by `try_acquire`.
pub async fn free_lock_is_acquired(client: &Client, ttl: Duration, waits: bool) {
    let ask = |name: &str| client.locks.mutex(format!("{name}-{ttl:?}-{waits}")).ttl(ttl);
    client.warm(&format!("warm-{ttl:?}-{waits}"), ttl).await;
    (client.silence_present)();
    let begun = Instant::now();
    let guard = match waits {
        true => ask("free").acquire().await.unwrap(),
        false => ask("free").try_acquire().await.unwrap().expect("it is free"),
    };
    let took = begun.elapsed();
    assert!(took < BOUND, "late: TTL {ttl:?}, waits: {waits}: {took:?}");
    guard.release().await.unwrap();
}

/// Tests that a hold survives a silence that begins `after` its grant.
pub async fn hold_survives(client: &Client, label: &str, ttl: Duration, after: Duration) {
    let name = format!("held-{label}-{ttl:?}-{after:?}");
    let guard = client.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
    sleep(after).await;
    (client.silence_present)();
    let silent = Instant::now();
    while silent.elapsed() < ttl * 5 / 4 {
        sleep(Duration::from_millis(50)).await;
        let passed = silent.elapsed();
        guard.check().unwrap_or_else(|lost| {
            panic!("{label}, TTL {ttl:?}, silent after {after:?}: {lost:?} after {passed:?}")
        });
    }
    guard.release().await.unwrap();
}

/// Tests that a silent connection is replaced although the caller drops each request after
/// `limit`.
pub async fn dropped_requests_have_the_connection_replaced(client: &Client, limit: Duration) {
    const TTL: Duration = Duration::from_secs(30);
    client.warm("warm", TTL).await;
    (client.silence_present)();
    let begun = Instant::now();
    for at in 0.. {
        let free = client.locks.mutex(format!("free-{at}")).ttl(TTL);
        if timeout(limit, free.acquire()).await.is_ok() {
            break;
        }
        assert!(begun.elapsed() < BOUND, "late: {:?}", begun.elapsed());
    }
}
