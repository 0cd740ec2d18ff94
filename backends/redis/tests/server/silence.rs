use std::time::{Duration, Instant};

use lockwright_conformance::silence::{free_locks_are_acquired, holds_are_renewed};
use lockwright_core::Locks;
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Cluster, Proxy, Sentinels};
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::common::eventually;

const SOON: Duration = Duration::from_secs(2);

/// All names are in the slot of `name`.
async fn everything(url: &str, proxies: Vec<Proxy>, name: &str) {
    let connect = async || Locks::new(Redis::connect(url).await.unwrap()).unwrap();
    let silence = || proxies.iter().for_each(Proxy::silence_present);
    free_locks_are_acquired(&connect, silence, &format!("{{{name}}}")).await;
    holds_are_renewed(&connect, silence, &format!("{{{name}}} held"), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_is_replaced_in_time_for_each_ttl() {
    let server = testbed::Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    everything(&server.url_through(proxy.port()), vec![proxy], "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_replaced_with_replicas() {
    let master = testbed::Redis::start().unwrap();
    let _replica = testbed::Redis::options().replica_of(&master).start().unwrap();
    let proxy = Proxy::start(master.address()).unwrap();
    let url = format!("{}?replicas=1", master.url_through(proxy.port()));
    eventually(|| async {
        let redis = Locks::new(Redis::connect(&url).await.unwrap()).unwrap();
        redis.mutex("a").try_acquire().await.ok().flatten()
    })
    .await
    .release()
    .await
    .unwrap();
    everything(&url, vec![proxy], "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_to_a_master_of_sentinels_is_replaced() {
    let set = Sentinels::start().unwrap();
    let proxy = Proxy::start(set.servers[0].address()).unwrap();
    let port = proxy.port().to_string();
    for sentinel in &set.sentinels {
        let monitor = ["SENTINEL", "MONITOR", "through-proxy", "127.0.0.1", &port, "2"];
        sentinel.command::<()>(&monitor).unwrap();
        // Prevent a failover: the Sentinels' connections to the proxy will be silent.
        let patient = ["SENTINEL", "SET", "through-proxy", "down-after-milliseconds", "60000"];
        sentinel.command::<()>(&patient).unwrap();
    }
    let url = set.url().replace(set.master_name(), "through-proxy");
    everything(&url, vec![proxy], "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_to_a_node_of_a_cluster_is_replaced() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let master = cluster.master_of("a").unwrap();
    let proxy = Proxy::start(cluster.nodes[master].address()).unwrap();
    let port = proxy.port().to_string();
    let announce = ["CONFIG", "SET", "cluster-announce-port", &port];
    cluster.nodes[master].command::<()>(&announce).unwrap();
    eventually(|| async {
        let knows = |node: &testbed::Redis| {
            node.command::<String>(&["CLUSTER", "NODES"]).unwrap().contains(&format!(":{port}@"))
        };
        cluster.nodes.iter().all(knows).then_some(())
    })
    .await;
    everything(&cluster.url(), vec![proxy], "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_requests_find_a_silent_connection() {
    let server = testbed::Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let locks = Locks::new(Redis::connect(&server.url_through(proxy.port())).await.unwrap());
    let locks = locks.unwrap();
    locks.mutex("before").acquire().await.unwrap().release().await.unwrap();
    proxy.silence_present();
    let (started, ttl) = (Instant::now(), Duration::from_secs(1));
    // Each request has a new name, because a dropped request's name would have to be released
    // first.
    let mut tries = 0..;
    let guard = eventually(|| {
        let request = locks.mutex(format!("lock {}", tries.next().unwrap())).ttl(ttl);
        async move { timeout(Duration::from_millis(50), request.acquire()).await.ok()?.ok() }
    })
    .await;
    assert!(started.elapsed() < SOON, "late: {:?}", started.elapsed());
    assert_eq!(proxy.accepted(), 2, "one new connection");
    guard.release().await.unwrap();
}
