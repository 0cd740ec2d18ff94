use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind, ReleaseMode};
use lockwright_etcd::{Config, Etcd};
use lockwright_testbed::proxy::{Proxy, Traffic};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::clusters::faults::{follower, whole};
use crate::common::{
    Cluster, FOR_EVER, LIMIT, busy, claim, claim_for, eventually, fails, grant, one_server,
    released, renewed, server_and_proxy,
};
use crate::faults::connected_to;
use crate::liveness::waiter_gets_an_error;

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
    let cluster = Cluster::start().unwrap();
    let proxies: Vec<Proxy> =
        cluster.members[..2].iter().map(|one| Proxy::start(one.address()).unwrap()).collect();
    let config = Config::new(&cluster.url_through(proxies.iter().map(Proxy::port))).unwrap();
    let etcd = config.connect().await.unwrap();
    idle(&etcd).await;
    let connections = || proxies.iter().map(Proxy::accepted).sum::<usize>();
    let reconnects_within = async |within: Duration| {
        let (before, end) = (connections(), Instant::now() + within);
        while connections() == before && Instant::now() < end {
            sleep(Duration::from_millis(50)).await;
        }
        connections() > before
    };
    // etcd closes a connection that pings too often. The client's pings are rare enough.
    assert!(!reconnects_within(Duration::from_secs(18)).await, "etcd closed a connection");
    let mut noticed = 0;
    for proxy in &proxies {
        proxy.set(Traffic::Hold);
        noticed += usize::from(reconnects_within(Duration::from_secs(12)).await);
        proxy.set(Traffic::Forward);
    }
    assert!(noticed > 0, "nothing was noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_is_not_stormed() {
    let (_cluster, proxy, url) = server_and_proxy();
    let etcd = Arc::new(Etcd::connect(&url).await.unwrap());
    grant(&*etcd, &claim("first")).await;
    proxy.cut();
    // A listener in the proxy's place counts the connections, and closes each at once.
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
    let mut cluster = Cluster::start().unwrap();
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
            // A dying member may have carried out the request, so repeat it.
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

/// Each call of `acquire` needs a lease. One call requests the lease while the others wait.
#[tokio::test(flavor = "multi_thread")]
async fn however_many_ask_while_the_cluster_is_down_each_is_answered_in_time() {
    let mut cluster = one_server();
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
    // The requests would take 40 s if sent one after the other.
    assert!(begun.elapsed() < Duration::from_secs(15), "late: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn times_without_end_are_no_end() {
    let cluster = one_server();
    let config = Config::new(&cluster.url()).unwrap();
    let config = config.response_timeout(Duration::MAX).connect_timeout(Duration::MAX);
    let etcd = config.keep_alive(Duration::MAX, Duration::MAX).connect().await.unwrap();
    let claim = claim("orders");
    grant(&etcd, &claim).await;
    renewed(&etcd, &claim).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_gets_an_error_from_a_silent_server() {
    let ttl = Duration::from_secs(10);
    waiter_gets_an_error(ttl, ttl * 2, "neither repeated nor renewed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_short_ttl_survives_the_loss_of_its_member() {
    let cluster = Cluster::start().unwrap();
    let follower = follower(&cluster);
    for is_cut_off in [false, true] {
        for ttl in [2, 3].map(Duration::from_secs) {
            let (locks, _proxies) = connected_to(&cluster, follower).await;
            let name = format!("held-{is_cut_off}-{ttl:?}");
            let guard = locks.mutex(name).ttl(ttl).acquire().await.unwrap();
            match is_cut_off {
                true => cluster.isolate(follower),
                false => cluster.members[follower].freeze(),
            }
            let lost = Instant::now();
            while lost.elapsed() < ttl * 2 {
                sleep(Duration::from_millis(50)).await;
                let passed = lost.elapsed();
                guard.check().unwrap_or_else(|lost| {
                    panic!("TTL {ttl:?}, cut off: {is_cut_off}: {lost:?} after {passed:?}")
                });
            }
            match is_cut_off {
                true => cluster.heal(follower),
                false => cluster.members[follower].thaw(),
            }
            whole(&cluster);
            drop(guard);
        }
    }
}
