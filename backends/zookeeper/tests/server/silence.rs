//! Connections that go silent while new ones work.

use std::time::Duration;

use lockwright_core::Locks;
use lockwright_testbed::{self as testbed, Proxy};
use lockwright_zookeeper::ZooKeeper;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// The TTLs to try, in seconds. ZooKeeper's own default tick allows them from 8 s on.
const TTLS: [u64; 4] = [2, 3, 5, 30];

/// The time within which a free lock is acquired.
const BOUND: Duration = Duration::from_secs(2);

/// A client, and the proxies that its connections to the members go through.
struct Client {
    locks: Locks,
    proxies: Vec<Proxy>,
}

impl Client {
    async fn of(server: &testbed::ZooKeeper) -> Self {
        let start = |member: &testbed::zookeeper::Member| Proxy::start(member.address()).unwrap();
        let proxies: Vec<_> = server.members.iter().map(start).collect();
        let url = server.url_through(proxies.iter().map(Proxy::port));
        Self { locks: Locks::new(ZooKeeper::connect(&url).await.unwrap()).unwrap(), proxies }
    }

    fn silence_present(&self) {
        self.proxies.iter().for_each(Proxy::silence_present);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    for ttl in TTLS.map(Duration::from_secs) {
        for waits in [false, true] {
            let client = Client::of(&server).await;
            let locks = &client.locks;
            let ask = |name: &str| locks.mutex(format!("{name}-{ttl:?}-{waits}")).ttl(ttl);
            // The client has a session for this TTL.
            ask("warm").acquire().await.unwrap().release().await.unwrap();
            client.silence_present();
            let begun = Instant::now();
            let guard = match waits {
                true => ask("free").acquire().await.unwrap(),
                false => ask("free").try_acquire().await.unwrap().expect("it is free"),
            };
            let took = begun.elapsed();
            assert!(took < BOUND, "TTL {ttl:?}, waits: {waits}: {took:?}");
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_silent_connection() {
    let one = testbed::ZooKeeper::options().members(1).start().unwrap();
    let three = testbed::ZooKeeper::start().unwrap();
    let mut holds = JoinSet::new();
    for (server, ttls) in [(&one, &TTLS[..]), (&three, &TTLS[..2])] {
        for ttl in ttls.iter().copied().map(Duration::from_secs) {
            for after in [Duration::ZERO, ttl / 4] {
                let client = Client::of(server).await;
                let members = server.members.len();
                holds.spawn(async move { survives(&client, members, ttl, after).await });
            }
        }
    }
    while let Some(held) = holds.join_next().await {
        held.unwrap();
    }
}

/// Silences the connections `after` the grant, and expects that the hold survives.
async fn survives(client: &Client, members: usize, ttl: Duration, after: Duration) {
    let name = format!("held-{members}-{ttl:?}-{after:?}");
    let guard = client.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
    sleep(after).await;
    client.silence_present();
    let silent = Instant::now();
    while silent.elapsed() < ttl * 5 / 4 {
        sleep(Duration::from_millis(50)).await;
        let passed = silent.elapsed();
        guard.check().unwrap_or_else(|lost| {
            panic!(
                "{members} members, TTL {ttl:?}, silent after {after:?}: {lost} after {passed:?}"
            )
        });
    }
    guard.release().await.unwrap();
}

/// The caller limits each request to less than the backend's own limits.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_have_the_connection_replaced() {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    let client = Client::of(&server).await;
    let locks = &client.locks;
    let ask = |name: &str| locks.mutex(name).ttl(Duration::from_secs(30));
    ask("warm").acquire().await.unwrap().release().await.unwrap();
    client.silence_present();
    let begun = Instant::now();
    let mut names = (0..).map(|at| format!("free-{at}"));
    while timeout(Duration::from_millis(300), ask(&names.next().unwrap()).acquire()).await.is_err()
    {
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    }
}
