use std::time::Duration;

use lockwright_core::Locks;
use lockwright_testbed::Proxy;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::clusters::{locks, one_server};
use crate::common::{Cluster, DROPPED_AFTER, SHORT_TTLS};

const BOUND: Duration = Duration::from_secs(2);

const LONG_TTL: u64 = 30;

pub(super) struct Client {
    locks: Locks,
    proxies: Vec<Proxy>,
}

impl Client {
    pub(super) async fn new(cluster: &Cluster) -> Self {
        let proxies: Vec<_> =
            cluster.members.iter().map(|member| Proxy::start(member.address()).unwrap()).collect();
        let locks = locks(cluster.url_through(proxies.iter().map(Proxy::port))).await;
        Self { locks, proxies }
    }

    /// Makes the client's open connections, but no later ones, lose all data.
    fn silence_present(&self) {
        self.proxies.iter().for_each(Proxy::silence_present);
    }

    /// Acquires and releases `name`, so that a connection is open.
    async fn warm(&self, name: &str, ttl: Duration) {
        let warm = self.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
        warm.release().await.unwrap();
    }

    /// The silence begins `after` the grant.
    pub(super) async fn hold_survives(&self, label: &str, ttl: Duration, after: Duration) {
        let name = format!("held-{label}-{ttl:?}-{after:?}");
        let guard = self.locks.mutex(name).ttl(ttl).acquire().await.unwrap();
        sleep(after).await;
        self.silence_present();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let server = one_server();
    for ttl in SHORT_TTLS.iter().chain([&LONG_TTL]).copied().map(Duration::from_secs) {
        for waits in [false, true] {
            let client = Client::new(&server).await;
            let free = client.locks.mutex(format!("free-{ttl:?}-{waits}")).ttl(ttl);
            client.warm(&format!("warm-{ttl:?}-{waits}"), ttl).await;
            client.silence_present();
            let begun = Instant::now();
            let guard = match waits {
                true => free.acquire().await.unwrap(),
                false => free.try_acquire().await.unwrap().expect("it is free"),
            };
            let took = begun.elapsed();
            assert!(took < BOUND, "late: TTL {ttl:?}, waits: {waits}: {took:?}");
            guard.release().await.unwrap();
        }
    }
}

/// The module `dead_connection` tests the longest TTL.
#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_silent_connection() {
    let (one, three) = (one_server(), Cluster::start().unwrap());
    let mut holds = JoinSet::new();
    for (cluster, ttls) in [(&one, SHORT_TTLS), (&three, &[2, 3][..])] {
        for ttl in ttls.iter().copied().map(Duration::from_secs) {
            for after in [Duration::ZERO, ttl / 4] {
                let client = Client::new(cluster).await;
                let label = format!("{} members", cluster.members.len());
                holds.spawn(async move { client.hold_survives(&label, ttl, after).await });
            }
        }
    }
    holds.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_have_the_connection_replaced() {
    const TTL: Duration = Duration::from_secs(30);
    let server = one_server();
    let client = Client::new(&server).await;
    client.warm("warm", TTL).await;
    client.silence_present();
    let begun = Instant::now();
    for at in 0.. {
        let free = client.locks.mutex(format!("free-{at}")).ttl(TTL);
        if timeout(DROPPED_AFTER, free.acquire()).await.is_ok() {
            break;
        }
        assert!(begun.elapsed() < BOUND, "late: {:?}", begun.elapsed());
    }
}
