use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind, Locks, ReleaseMode};
use lockwright_etcd::{Config, Etcd};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::common::{
    FOR_EVER, LIMIT, busy, claim, claim_for, eventually, fails, grant, name, released, renewed,
};

/// A cluster with proxies to two of its members.
struct TwoWays {
    _cluster: testbed::Etcd,
    proxies: Vec<Proxy>,
    url: String,
}

impl TwoWays {
    fn start() -> Self {
        let cluster = testbed::Etcd::start().unwrap();
        let proxies: Vec<Proxy> =
            cluster.members[..2].iter().map(|one| Proxy::start(one.address()).unwrap()).collect();
        let url = cluster.url_through(proxies.iter().map(Proxy::port));
        Self { _cluster: cluster, proxies, url }
    }

    async fn connect(&self, interval: Duration) -> Etcd {
        let config = Config::new(&self.url).unwrap().keep_alive(interval, Duration::from_secs(1));
        config.connect().await.unwrap()
    }

    fn connections(&self) -> usize {
        self.proxies.iter().map(Proxy::accepted).sum()
    }

    async fn is_reconnected(&self, within: Duration) -> bool {
        let (before, begun) = (self.connections(), Instant::now());
        while begun.elapsed() < within {
            if self.connections() > before {
                return true;
            }
            sleep(Duration::from_millis(50)).await;
        }
        false
    }
}

/// Creates a holder and a waiter whose leases are long, so that the client sends no requests for a
/// minute.
async fn idle(etcd: &Etcd) {
    let (held, waits) = (
        claim_for("orders", Duration::from_secs(600)),
        claim_for("orders", Duration::from_secs(600)),
    );
    grant(etcd, &held).await;
    busy(etcd, &waits, FOR_EVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frozen_member_is_detected_without_requests() {
    let ways = TwoWays::start();
    let etcd = ways.connect(Duration::from_millis(5_500)).await;
    idle(&etcd).await;
    // etcd closes a connection that pings too often. The client's pings are rare enough.
    assert!(!ways.is_reconnected(Duration::from_secs(18)).await, "it was hung up on");
    let mut noticed = 0;
    for proxy in &ways.proxies {
        proxy.set(Traffic::Hold);
        noticed += usize::from(ways.is_reconnected(Duration::from_secs(12)).await);
        proxy.set(Traffic::Forward);
    }
    assert!(noticed > 0, "nothing was noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_member_is_asked_when_one_fails() {
    let ways = TwoWays::start();
    let etcd = ways.connect(Duration::from_millis(5_500)).await;
    for round in 0..2 {
        for proxy in &ways.proxies {
            let claim = claim("orders");
            grant(&etcd, &claim).await;
            if round == 0 {
                // The connection stays open, but is silent.
                proxy.set(Traffic::Hold);
            } else {
                proxy.cut();
            }
            eventually(|| async { etcd.release(&claim, ReleaseMode::Plain).await.ok() }).await;
            if round == 0 { proxy.set(Traffic::Forward) } else { proxy.mend() }
        }
    }
    for proxy in &ways.proxies {
        proxy.cut();
    }
    // A first request may get through before its connection breaks.
    let _ = etcd.try_acquire(&claim("orders")).await;
    fails(etcd.try_acquire(&claim("orders")).await, ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_is_not_stormed() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let proxy = Proxy::start(cluster.members[0].address()).unwrap();
    let config = Config::new(&cluster.url_through([proxy.port()])).unwrap();
    let etcd = Arc::new(config.connect().await.unwrap());
    grant(&*etcd, &claim("first")).await;
    proxy.cut();
    // A listener in the proxy's place closes each connection at once, and counts them.
    let down = TcpListener::bind(proxy.address()).await.unwrap();
    let stopped = Instant::now() + Duration::from_secs(3);
    let mut asking = JoinSet::new();
    for at in 0..100 {
        let etcd = Arc::clone(&etcd);
        asking.spawn(async move {
            while Instant::now() < stopped {
                etcd.try_acquire(&claim(&format!("name-{at}"))).await.unwrap_err();
                sleep(Duration::from_millis(10)).await;
            }
        });
    }
    let mut connections = 0;
    while let Ok(accepted) = timeout_at(stopped, down.accept()).await {
        drop(accepted.unwrap());
        connections += 1;
    }
    asking.join_all().await;
    assert!((2..60).contains(&connections), "{connections} connections in 3 s");
    drop(down);
    proxy.mend();
    eventually(|| async { etcd.try_acquire(&claim("last")).await.ok() }).await;
}

/// The client repeats a request until its timeout, even if all members refuse connections.
#[tokio::test(flavor = "multi_thread")]
async fn request_during_an_outage_succeeds_once_a_majority_is_back() {
    let mut cluster = testbed::Etcd::start().unwrap();
    let etcd = Arc::new(crate::common::connect(&cluster.url()).await);
    let held = claim("held");
    grant(&*etcd, &held).await;
    for member in &mut cluster.members {
        member.kill();
    }
    let mut asking = JoinSet::new();
    for at in 0..20 {
        let etcd = Arc::clone(&etcd);
        asking.spawn(async move {
            let claim = claim(&format!("name-{at}"));
            // A request sent to a dying member may have been carried out, and is repeated.
            loop {
                match etcd.try_acquire(&claim).await {
                    Err(failure) if failure.kind() == ErrorKind::Indeterminate => {}
                    asked => return asked,
                }
            }
        });
    }
    // After this time, all members refuse connections.
    sleep(Duration::from_secs(1)).await;
    assert!(asking.try_join_next().is_none(), "a request gave up early");
    tokio::task::block_in_place(|| cluster.restart(true)).unwrap();
    let all = timeout(LIMIT * 3, asking.join_all()).await.expect("no request retries forever");
    for asked in all {
        assert!(matches!(asked, Ok(AcquireOutcome::Granted(_))), "{asked:?}");
    }
    released(&etcd, &held, ReleaseMode::Plain).await;
}

/// All requests need a lease, which one of them requests while the others wait.
#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_while_the_cluster_is_down_each_is_answered_in_time() {
    let mut cluster = testbed::Etcd::options().members(1).start().unwrap();
    let config = Config::new(&cluster.url()).unwrap().response_timeout(Duration::from_secs(1));
    let etcd = Arc::new(config.connect().await.unwrap());
    cluster.members[0].kill();
    let begun = Instant::now();
    let mut asking = JoinSet::new();
    for at in 0..40 {
        let etcd = Arc::clone(&etcd);
        asking.spawn(async move { etcd.try_acquire(&claim(&format!("name-{at}"))).await });
    }
    for asked in asking.join_all().await {
        fails(asked, ErrorKind::Unavailable);
    }
    // One after the other, the requests would take 40 s.
    assert!(begun.elapsed() < Duration::from_secs(15), "late: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn times_without_end_are_no_end() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let config = Config::new(&cluster.url()).unwrap();
    let config = config.response_timeout(Duration::MAX).connect_timeout(Duration::MAX);
    let etcd = config.keep_alive(Duration::MAX, Duration::MAX).connect().await.unwrap();
    let claim = claim("orders");
    grant(&etcd, &claim).await;
    renewed(&etcd, &claim).await;
}

/// The server dies, and the waiting claims expire. The error reports the dead server, not the
/// expiry.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_gets_an_error_from_a_silent_server() {
    let mut cluster = testbed::Etcd::options().members(1).start().unwrap();
    let (holder, ttl) = (Etcd::connect(&cluster.url()).await.unwrap(), Duration::from_secs(10));
    grant(&holder, &claim_for("orders", ttl * 6)).await;
    let mut waiting = JoinSet::new();
    for limit in [None, Some(ttl * 2)] {
        let etcd = Etcd::connect(&cluster.url()).await.unwrap();
        let locks = Locks::builder(etcd).ttl(ttl).build().unwrap();
        waiting.spawn(async move {
            let request = locks.mutex("orders");
            match limit {
                None => request.acquire().await,
                Some(limit) => request.wait_for(limit).acquire().await,
            }
            .unwrap_err()
        });
    }
    eventually(|| async {
        let found = holder.inspect(&name("orders")).await.ok()?;
        (found.waiters == Some(2)).then_some(())
    })
    .await;
    cluster.members[0].kill();
    for told in waiting.join_all().await {
        let told = format!("{told:?}");
        assert!(told.contains("refuses connections"), "{told}");
        assert!(!told.contains("neither repeated nor renewed"), "{told}");
    }
}
