use std::time::Duration;

use lockwright_conformance::liveness;
use lockwright_core::{DistributedLock, Locks, Wait};
use lockwright_etcd::Etcd;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::common::{LIMIT, busy, claim, connect, eventually, grant};
use crate::queue::queue;

const TTL: Duration = Duration::from_secs(2);

/// Time for the server to end an expired lease, for a waiter's slow poll, and for a busy machine.
const MORE: Duration = Duration::from_secs(4);

async fn locks(url: String) -> Locks {
    Locks::new(Etcd::connect(&url).await.unwrap()).unwrap()
}

#[test]
fn live_waiter_holds_after_the_dead_ones() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    for are_killed in [true, false] {
        for dead in [0, 3] {
            let connect = || locks(cluster.url());
            let took = liveness::wait_behind_the_dead(connect, TTL, dead, are_killed);
            eprintln!("behind {dead} waiters, killed: {are_killed}: {took:?}");
            assert!(
                took <= TTL + MORE,
                "late: {took:?} behind {dead} waiters, killed: {are_killed}"
            );
        }
    }
}

#[test]
fn guard_without_a_runtime_is_lost() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    liveness::guard_without_a_runtime_is_lost(|| locks(cluster.url()), TTL);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_client_is_granted_nothing() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let proxy = Proxy::start(cluster.members[0].address()).unwrap();
    let other = locks(cluster.url()).await;
    let connect = || locks(cluster.url_through([proxy.port()]));
    liveness::closed_client_is_granted_nothing(connect, &other, || ()).await;
    // This makes the client's open connections silent, but new connections work.
    let silence = || proxy.silence_present();
    liveness::closed_client_is_granted_nothing(connect, &other, silence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_try_leaves_nothing_behind() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let (ours, other) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let held = claim("orders");
    grant(&other, &held).await;
    assert!(!busy(&ours, &claim("orders"), Wait::No).await.queued);
    assert_eq!(queue(&cluster, "orders").await.len(), 1);
    // A `try_acquire` that is dropped in flight leaves no key either, once its client has released
    // it.
    let locks = Locks::new(ours).unwrap();
    for at in 0..20 {
        let tries = locks.mutex("orders").try_acquire();
        drop(timeout(Duration::from_micros(at * 200), tries).await);
    }
    eventually(|| async { (queue(&cluster, "orders").await.len() == 1).then_some(()) }).await;
    other.release(&held, lockwright_core::ReleaseMode::Plain).await.unwrap();
    eventually(|| async { queue(&cluster, "orders").await.is_empty().then_some(()) }).await;
}

/// Requests to a frozen server time out. They leave no keys on the server, and few leases, which
/// expire.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_requests_leave_nothing_on_the_server() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let locks = locks(cluster.url()).await;
    locks.mutex("warm").ttl(TTL).acquire().await.unwrap().release().await.unwrap();
    cluster.members[0].freeze();
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(TTL).wait_for(TTL).acquire();
        burst.spawn(async move { request.await.map(drop) });
    }
    let begun = Instant::now();
    while let Some(refused) = burst.join_next().await {
        refused.unwrap().expect_err("no server answers");
    }
    let gave_up = begun.elapsed();
    assert!(gave_up < LIMIT, "{gave_up:?}");
    cluster.members[0].thaw();
    let leases = || cluster.ctl(&["lease", "list"]).unwrap().lines().count() - 1;
    eventually(|| async {
        let keys = cluster.ctl(&["get", "--prefix", "lockwright/burst", "--keys-only"]).unwrap();
        (keys.trim().is_empty() && leases() <= 2).then_some(())
    })
    .await;
    // A burst of requests that are answered needs only one more lease.
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(LIMIT).acquire();
        burst.spawn(async move { request.await.unwrap() });
    }
    let held = burst.join_all().await;
    let leases = leases();
    assert!(leases <= 3, "{leases} leases for {} holds", held.len());
}
