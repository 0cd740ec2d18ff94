use std::time::{Duration, Instant};

use lockwright_core::Locks;
use lockwright_redlock::{Config, Options};
use lockwright_testbed::{Fleet, Proxy};
use tokio::time::sleep;

use crate::common::{Five, NODES};

const TTLS: [u64; 5] = [1, 2, 3, 5, 30];
const SOON: Duration = Duration::from_secs(2);

async fn client(fleet: &Fleet) -> Locks {
    let options = Options::new().node_timeout(Duration::from_millis(100));
    let urls = fleet.urls_through_proxies();
    let nodes = urls.iter().map(|url| lockwright_redis::Config::new(url).unwrap()).collect();
    Locks::new(Config::of(nodes, options).connect().await.unwrap()).unwrap()
}

/// Acquires locks and renews holds after the connections to the first `silent` nodes went silent.
async fn everything(silent: usize) {
    let five = Five::start().await;
    let silence = || five.fleet.proxies[..silent].iter().for_each(Proxy::silence_present);
    for ttl in TTLS {
        let locks = client(&five.fleet).await;
        let name = format!("free {ttl}");
        let request = || locks.mutex(&name).ttl(Duration::from_secs(ttl)).wait_for(5 * SOON);
        request().acquire().await.unwrap().release().await.unwrap();
        silence();
        let started = Instant::now();
        let guard = request().acquire().await.unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
        assert!(started.elapsed() < SOON, "late: {ttl} s: {:?}", started.elapsed());
        drop(guard);
        locks.close().await;
    }

    let mut holds = Vec::new();
    for ttl in TTLS {
        let locks = client(&five.fleet).await;
        let request = locks.mutex(format!("held {ttl}")).ttl(Duration::from_secs(ttl));
        let guard = request.acquire().await.unwrap();
        holds.push((ttl, locks, guard));
    }
    silence();
    let mut tasks = tokio::task::JoinSet::new();
    for (ttl, locks, guard) in holds {
        tasks.spawn(async move {
            let renewed = locks.metrics().renewals;
            while locks.metrics().renewals < renewed + 1 {
                guard.check().unwrap_or_else(|error| panic!("{ttl} s: {error:?}"));
                sleep(Duration::from_millis(5)).await;
            }
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_a_minority_cost_no_hold() {
    everything(NODES / 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_all_nodes_are_replaced_in_time() {
    everything(NODES).await;
}
