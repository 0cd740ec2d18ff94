//! Tests with connections that silently lose all data.

use std::fmt;
use std::time::Duration;

use lockwright_core::Locks;
use tokio::task::JoinSet;
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

/// TTLs in seconds, each of which gives requests another time limit.
const TTLS: [u64; 5] = [1, 2, 3, 5, 30];

/// Tests for several TTLs that a client acquires a free lock within 2 s of the silence.
pub async fn free_locks_are_acquired(
    connect: impl AsyncFn() -> Locks,
    silence_present: impl Fn(),
    label: &str,
) {
    for ttl in TTLS {
        let locks = connect().await;
        let name = format!("{label} {ttl}");
        let request = || locks.mutex(&name).ttl(Duration::from_secs(ttl)).wait_for(5 * BOUND);
        request().acquire().await.unwrap().release().await.unwrap();
        silence_present();
        let begun = Instant::now();
        let guard = request().acquire().await.unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
        assert!(begun.elapsed() < BOUND, "late: {ttl} s: {:?}", begun.elapsed());
        drop(guard);
        locks.close().await;
    }
}

/// Tests for several TTLs that a hold is renewed after the silence. `fails` is set if the silence
/// must make renewals fail.
pub async fn holds_are_renewed(
    connect: impl AsyncFn() -> Locks,
    silence_present: impl Fn(),
    label: &str,
    fails: bool,
) {
    let mut holds = Vec::new();
    for ttl in TTLS {
        let locks = connect().await;
        let request = locks.mutex(format!("{label} {ttl}")).ttl(Duration::from_secs(ttl));
        let guard = request.acquire().await.unwrap();
        holds.push((ttl, locks, guard));
    }
    silence_present();
    let mut tasks = JoinSet::new();
    for (ttl, locks, guard) in holds {
        tasks.spawn(async move {
            let renewed = locks.metrics().renewals;
            while locks.metrics().renewals == renewed {
                guard.check().unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
                sleep(Duration::from_millis(5)).await;
            }
            let failed = locks.metrics().renewals_failed;
            assert!(!fails || failed > 0, "{ttl} s: nothing was silent");
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
}
