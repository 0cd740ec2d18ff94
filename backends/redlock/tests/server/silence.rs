use std::time::Duration;

use lockwright_conformance::silence::{free_locks_are_acquired, holds_are_renewed};
use lockwright_core::Locks;
use lockwright_redlock::{Config, Options};
use lockwright_testbed::{Fleet, Proxy};

use crate::common::{Five, NODES};

async fn client(fleet: &Fleet) -> Locks {
    let options = Options::new().node_timeout(Duration::from_millis(100));
    let urls = fleet.urls_through_proxies();
    let nodes = urls.iter().map(|url| lockwright_redis::Config::new(url).unwrap()).collect();
    Locks::new(Config::of(nodes, options).connect().await.unwrap()).unwrap()
}

async fn everything(silent: usize) {
    let five = Five::start().await;
    let connect = async || client(&five.fleet).await;
    let silence = || five.fleet.proxies[..silent].iter().for_each(Proxy::silence_present);
    free_locks_are_acquired(&connect, silence, "free").await;
    holds_are_renewed(&connect, silence, "held", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_a_minority_cost_no_hold() {
    everything(NODES / 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_to_all_nodes_are_replaced_in_time() {
    everything(NODES).await;
}
