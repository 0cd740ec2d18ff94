use std::time::Duration;

use lockwright_conformance::silence::{self, Client};
use lockwright_core::Locks;
use lockwright_etcd::Etcd;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// TTLs in seconds. The first is the shortest that etcd allows.
const TTLS: [u64; 4] = [2, 3, 5, 30];

pub(crate) async fn client(cluster: &testbed::Etcd) -> Client {
    let start = |member: &testbed::etcd::Member| Proxy::start(member.address()).unwrap();
    let proxies: Vec<_> = cluster.members.iter().map(start).collect();
    let url = cluster.url_through(proxies.iter().map(Proxy::port));
    let locks = Locks::new(Etcd::connect(&url).await.unwrap()).unwrap();
    Client::new(locks, move || proxies.iter().for_each(Proxy::silence_present))
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    for ttl in TTLS.map(Duration::from_secs) {
        for waits in [false, true] {
            silence::free_lock_is_acquired(&client(&cluster).await, ttl, waits).await;
        }
    }
}

/// The module `dead_connection` tests the longest TTL.
#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_silent_connection() {
    const SHORT: &[u64] = &[2, 3, 5];

    let one = testbed::Etcd::options().members(1).start().unwrap();
    let three = testbed::Etcd::start().unwrap();
    let mut holds = JoinSet::new();
    for (cluster, ttls) in [(&one, SHORT), (&three, &TTLS[..2])] {
        for ttl in ttls.iter().copied().map(Duration::from_secs) {
            for after in [Duration::ZERO, ttl / 4] {
                let client = client(cluster).await;
                let label = format!("{} members", cluster.members.len());
                holds.spawn(async move {
                    silence::hold_survives(&client, &label, ttl, after).await;
                });
            }
        }
    }
    while let Some(held) = holds.join_next().await {
        held.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_have_the_connection_replaced() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let limit = Duration::from_millis(100);
    silence::dropped_requests_have_the_connection_replaced(&client(&cluster).await, limit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_with_a_short_ttl_survives_the_loss_of_its_member() {
    let cluster = testbed::Etcd::start().unwrap();
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    for is_cut_off in [false, true] {
        for ttl in [2, 3].map(Duration::from_secs) {
            let proxies: Vec<_> = cluster
                .members
                .iter()
                .map(|member| Proxy::start(member.address()).unwrap())
                .collect();
            proxies.iter().for_each(Proxy::cut);
            proxies[follower].mend();
            let url = cluster.url_through(proxies.iter().map(Proxy::port));
            let locks = Locks::new(Etcd::connect(&url).await.unwrap()).unwrap();
            proxies.iter().for_each(Proxy::mend);
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
            tokio::task::block_in_place(|| cluster.wait_until_whole()).unwrap();
            drop(guard);
        }
    }
}
