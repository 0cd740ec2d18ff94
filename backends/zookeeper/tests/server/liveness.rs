use std::time::Duration;

use lockwright_conformance::liveness;
use lockwright_core::{DistributedLock, Locks, ReleaseMode, Wait};
use lockwright_testbed::{self as testbed, Proxy};
use lockwright_zookeeper::ZooKeeper;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::common::{LIMIT, busy, claim, connect, eventually, grant};

const TTL: Duration = Duration::from_secs(2);

const MORE: Duration = Duration::from_secs(4);

async fn locks(url: String) -> Locks {
    Locks::new(ZooKeeper::connect(&url).await.unwrap()).unwrap()
}

fn server() -> testbed::ZooKeeper {
    testbed::ZooKeeper::options().members(1).start().unwrap()
}

fn figure(server: &testbed::ZooKeeper, name: &str) -> usize {
    let all = server.four_letter(0, "mntr").unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name)).expect("it has that figure");
    line.trim().parse().unwrap()
}

#[test]
fn live_waiter_holds_after_the_dead_ones() {
    let server = server();
    for are_killed in [true, false] {
        for dead in [0, 3] {
            let connect = || locks(server.url());
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
    let server = server();
    liveness::guard_without_a_runtime_is_lost(|| locks(server.url()), TTL);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_client_is_granted_nothing() {
    let server = server();
    let proxy = Proxy::start(server.members[0].address()).unwrap();
    let other = locks(server.url()).await;
    let connect = || locks(server.url_through([proxy.port()]));
    liveness::closed_client_is_granted_nothing(connect, &other, || ()).await;
    // This makes the client's open connections silent, but new connections work.
    let silence = || proxy.silence_present();
    liveness::closed_client_is_granted_nothing(connect, &other, silence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_try_leaves_nothing_behind() {
    let server = server();
    let (ours, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = claim("x");
    grant(&other, &held).await;
    assert!(!busy(&ours, &claim("x"), Wait::No).await.queued);
    let nodes = || figure(&server, "zk_ephemerals_count");
    assert_eq!(nodes(), 1);
    // A `try_acquire` that is dropped in flight leaves nothing either, once its client has released
    // it.
    let locks = Locks::new(ours).unwrap();
    for at in 0..20 {
        let tries = locks.mutex("x").try_acquire();
        drop(timeout(Duration::from_micros(at * 200), tries).await);
    }
    eventually(|| async { (nodes() == 1).then_some(()) }).await;
    other.release(&held, ReleaseMode::Plain).await.unwrap();
    eventually(|| async { (nodes() == 0).then_some(()) }).await;
}

/// Requests to a frozen server time out. The little that they leave on the server expires.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_requests_leave_nothing_on_the_servers() {
    let server = server();
    let locks = locks(server.url()).await;
    locks.mutex("warm").ttl(TTL).acquire().await.unwrap().release().await.unwrap();
    server.members[0].freeze();
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst-{at}")).ttl(TTL).wait_for(TTL).acquire();
        burst.spawn(async move { request.await.map(drop) });
    }
    let begun = Instant::now();
    while let Some(refused) = burst.join_next().await {
        refused.unwrap().expect_err("no server answers");
    }
    let gave_up = begun.elapsed();
    assert!(gave_up < LIMIT, "{gave_up:?}");
    server.members[0].thaw();
    let left = || ["zk_ephemerals_count", "zk_watch_count"].map(|name| figure(&server, name));
    eventually(|| async { (left() == [0, 0]).then_some(()) }).await;
    // A burst that is answered needs only one session.
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst-{at}")).ttl(LIMIT).acquire();
        burst.spawn(async move { request.await.unwrap() });
    }
    let held = burst.join_all().await;
    let sessions = figure(&server, "zk_num_alive_connections");
    assert!(sessions <= 5, "{sessions} connections for {} holds", held.len());
}
