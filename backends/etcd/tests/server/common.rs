use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_etcd::Config;
pub(crate) use lockwright_etcd::Etcd as Backend;
pub(crate) use lockwright_testbed::Etcd as Cluster;

pub(crate) use crate::clusters::{
    locks, one_server, server_and_client, server_and_client as cluster_and_client, server_and_proxy,
};
use crate::queue::queue;

/// TTLs in seconds. The first is the shortest that etcd allows.
pub(crate) const SHORT_TTLS: &[u64] = &[2, 3, 5];

pub(crate) const DROPPED_AFTER: Duration = Duration::from_millis(100);

pub(crate) async fn connect(url: &str) -> Backend {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT)
}

/// Connects a client that leaves a silent member only after the response timeout.
pub(crate) async fn stubborn(url: &str, response_timeout: Duration) -> Backend {
    let hour = Duration::from_secs(3_600);
    let config = Config::new(url).unwrap().response_timeout(response_timeout);
    config.keep_alive(hour, hour).connect().await.unwrap()
}

pub(crate) async fn entries(cluster: &Cluster, name: &str) -> usize {
    queue(cluster, name).await.len()
}

/// The last parts of other programs' keys. Go's `concurrency` appends the lease's id.
pub(crate) const ALIENS: &[&str] = &["1f"];

pub(crate) async fn put_alien(cluster: &Cluster, key: &str) -> String {
    let key = format!("lockwright/x/{key}");
    cluster.ctl(&["put", &key, ""]).unwrap();
    key
}

pub(crate) async fn remove_alien(cluster: &Cluster, key: String) {
    cluster.ctl(&["del", &key]).unwrap();
}

pub(crate) fn key_of(cluster: &Cluster, name: &str) -> String {
    let keys = cluster.ctl(&["get", &format!("lockwright/{name}/"), "--prefix", "--keys-only"]);
    keys.unwrap().trim().to_owned()
}

/// Returns the lease of the only key of a lock's queue, in hex.
pub(crate) fn lease_of(cluster: &Cluster, name: &str) -> String {
    key_of(cluster, name).rsplit('/').next().unwrap().to_owned()
}

pub(crate) fn leases(cluster: &Cluster) -> usize {
    cluster.ctl(&["lease", "list"]).unwrap().lines().count() - 1
}

/// Returns whether abandoned requests left no keys and few leases.
pub(crate) fn is_clean(cluster: &Cluster) -> bool {
    let keys = cluster.ctl(&["get", "--prefix", "lockwright/burst", "--keys-only"]).unwrap();
    keys.trim().is_empty() && leases(cluster) <= 2
}

pub(crate) fn assert_few_sessions(cluster: &Cluster) {
    let leases = leases(cluster);
    assert!(leases <= 3, "{leases} leases");
}
