use std::time::Duration;

use lockwright_conformance::silence::{self, Client};
use lockwright_testbed::Proxy;
use tokio::task::JoinSet;

use super::{locks, one_server};
use crate::common::{Cluster, DROPPED_AFTER, SHORT_TTLS};

const LONG_TTL: u64 = 30;

pub(super) async fn client(cluster: &Cluster) -> Client {
    let proxies: Vec<_> =
        cluster.members.iter().map(|member| Proxy::start(member.address()).unwrap()).collect();
    let locks = locks(cluster.url_through(proxies.iter().map(Proxy::port))).await;
    Client::new(locks, move || proxies.iter().for_each(Proxy::silence_present))
}

#[tokio::test(flavor = "multi_thread")]
async fn free_lock_is_acquired_on_a_new_connection() {
    let server = one_server();
    for ttl in SHORT_TTLS.iter().chain([&LONG_TTL]).copied().map(Duration::from_secs) {
        for waits in [false, true] {
            silence::free_lock_is_acquired(&client(&server).await, ttl, waits).await;
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
                let client = client(cluster).await;
                let label = format!("{} members", cluster.members.len());
                holds.spawn(async move {
                    silence::hold_survives(&client, &label, ttl, after).await;
                });
            }
        }
    }
    holds.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_have_the_connection_replaced() {
    let server = one_server();
    let client = client(&server).await;
    silence::dropped_requests_have_the_connection_replaced(&client, DROPPED_AFTER).await;
}
