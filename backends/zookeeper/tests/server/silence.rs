use std::time::Duration;

use lockwright_conformance::silence::{self, Client};
use lockwright_core::Locks;
use lockwright_testbed::{self as testbed, Proxy};
use lockwright_zookeeper::ZooKeeper;
use tokio::task::JoinSet;

/// TTLs in seconds. With ZooKeeper's default tick, the shortest TTL would be 8 s.
const TTLS: [u64; 5] = [1, 2, 3, 5, 30];

pub(crate) async fn client(server: &testbed::ZooKeeper) -> Client {
    let start = |member: &testbed::zookeeper::Member| Proxy::start(member.address()).unwrap();
    let proxies: Vec<_> = server.members.iter().map(start).collect();
    let url = server.url_through(proxies.iter().map(Proxy::port));
    let locks = Locks::new(ZooKeeper::connect(&url).await.unwrap()).unwrap();
    Client::new(locks, move || proxies.iter().for_each(Proxy::silence_present))
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    for ttl in TTLS.map(Duration::from_secs) {
        for waits in [false, true] {
            silence::free_lock_is_acquired(&client(&server).await, ttl, waits).await;
        }
    }
}

/// The module `dead_connection` tests the longest TTL.
#[tokio::test(flavor = "multi_thread")]
async fn hold_survives_a_silent_connection() {
    const SHORT: &[u64] = &[1, 2, 3, 5];

    let one = testbed::ZooKeeper::options().members(1).start().unwrap();
    let three = testbed::ZooKeeper::start().unwrap();
    let mut holds = JoinSet::new();
    for (server, ttls) in [(&one, SHORT), (&three, &TTLS[1..3])] {
        for ttl in ttls.iter().copied().map(Duration::from_secs) {
            for after in [Duration::ZERO, ttl / 4] {
                let client = client(server).await;
                let label = format!("{} members", server.members.len());
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
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    let limit = Duration::from_millis(300);
    silence::dropped_requests_have_the_connection_replaced(&client(&server).await, limit).await;
}
