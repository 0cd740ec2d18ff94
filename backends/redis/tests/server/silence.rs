use std::time::{Duration, Instant};

use lockwright_core::Locks;
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Cluster, Proxy, Sentinels};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};

use crate::common::eventually;

const TTLS: [u64; 5] = [1, 2, 3, 5, 30];
/// The longest permitted time for acquiring a free lock.
const SOON: Duration = Duration::from_secs(2);

/// Acquires a free lock for each TTL, after the client's connections went silent.
async fn free_lock_is_acquired_soon(url: &str, proxies: &[Proxy], name: &str) {
    for ttl in TTLS {
        let locks = Locks::new(Redis::connect(url).await.unwrap()).unwrap();
        let name = format!("{{{name}}} {ttl}");
        let request = || locks.mutex(&name).ttl(Duration::from_secs(ttl)).wait_for(5 * SOON);
        request().acquire().await.unwrap().release().await.unwrap();
        proxies.iter().for_each(Proxy::silence_present);
        let started = Instant::now();
        let guard = request().acquire().await.unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
        assert!(started.elapsed() < SOON, "late: {ttl} s: {:?}", started.elapsed());
        drop(guard);
        locks.close().await;
    }
}

/// Renews a hold for each TTL, after the client's connections went silent.
async fn hold_survives(url: &str, proxies: &[Proxy], name: &str) {
    let mut holds = Vec::new();
    for ttl in TTLS {
        let locks = Locks::new(Redis::connect(url).await.unwrap()).unwrap();
        let name = format!("{{{name}}} held {ttl}");
        let guard = locks.mutex(name).ttl(Duration::from_secs(ttl)).acquire().await.unwrap();
        holds.push((ttl, locks, guard));
    }
    proxies.iter().for_each(Proxy::silence_present);
    let mut tasks = JoinSet::new();
    for (ttl, locks, guard) in holds {
        tasks.spawn(async move {
            let renewed = locks.metrics().renewals;
            while locks.metrics().renewals == renewed {
                guard.check().unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
                sleep(Duration::from_millis(5)).await;
            }
            assert!(locks.metrics().renewals_failed > 0, "{ttl} s: nothing was silent");
            drop(guard);
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
}

async fn everything(url: &str, proxies: Vec<Proxy>, name: &str) {
    free_lock_is_acquired_soon(url, &proxies, name).await;
    hold_survives(url, &proxies, name).await;
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
        // The Sentinels' connections to the proxy go silent too. Prevent a failover.
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
