use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_core::{Claim, DistributedLock, Renew, RenewalOutcome};
pub(crate) use lockwright_testbed::ZooKeeper as Cluster;
use lockwright_testbed::zookeeper::Options;
use lockwright_zookeeper::Config;
pub(crate) use lockwright_zookeeper::ZooKeeper as Backend;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

pub(crate) use crate::clusters::{locks, one_server, server_and_client, server_and_proxy};

pub(crate) const TTL: Duration = Duration::from_secs(4);

/// TTLs in seconds, for the testbed's short tick. With the default tick, the shortest TTL is 8 s.
pub(crate) const SHORT_TTLS: &[u64] = &[1, 2, 3, 5];

pub(crate) const DROPPED_AFTER: Duration = Duration::from_millis(300);

pub(crate) async fn connect(url: &str) -> Backend {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT).silence_timeout(LIMIT)
}

pub(crate) async fn cluster_and_client() -> (Cluster, Backend) {
    let ensemble = Cluster::start().unwrap();
    let zookeeper = connect(&ensemble.url()).await;
    (ensemble, zookeeper)
}

/// Connects the client library itself, to simulate other programs.
pub(crate) async fn raw(url: &str) -> Client {
    let servers = url.strip_prefix("zookeeper:").unwrap();
    let connector = Client::connector().with_session_timeout(Duration::from_secs(20));
    connector.connect(servers).await.unwrap()
}

pub(crate) async fn queue(raw: &Client, name: &str) -> Vec<String> {
    match raw.list_children(&format!("/lockwright/{name}")).await {
        Err(Error::NoNode) => Vec::new(),
        answer => answer.unwrap(),
    }
}

pub(crate) async fn entries(cluster: &Cluster, name: &str) -> usize {
    queue(&raw(&cluster.url()).await, name).await.len()
}

/// Names of other programs' nodes: of Curator's mutex and of its read locks.
pub(crate) const ALIENS: &[&str] = &["lock-", "__READ__"];

pub(crate) async fn put_alien(cluster: &Cluster, kind: &str) -> (Client, String) {
    let raw = raw(&cluster.url()).await;
    let theirs = format!("/lockwright/x/_c_7b0a1f2e-1111-4222-8333-444455556666-{kind}");
    let (_, sequence) = raw.create(&theirs, b"", &ephemeral()).await.unwrap();
    (raw, format!("{theirs}{sequence}"))
}

pub(crate) async fn remove_alien(_: &Cluster, (raw, node): (Client, String)) {
    raw.delete(&node, None).await.unwrap();
}

pub(crate) fn figure(cluster: &Cluster, name: &str) -> usize {
    let all = cluster.four_letter(0, "mntr").unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name)).expect("it has that figure");
    line.trim().parse().unwrap()
}

/// Returns whether no nodes or watches of abandoned requests remain.
pub(crate) fn is_clean(cluster: &Cluster) -> bool {
    ["zk_ephemerals_count", "zk_watch_count"].iter().all(|name| figure(cluster, name) == 0)
}

pub(crate) fn assert_few_sessions(cluster: &Cluster) {
    let sessions = figure(cluster, "zk_num_alive_connections");
    assert!(sessions <= 5, "{sessions} connections");
}

pub(crate) fn sessions(server: &Cluster, timeout: Duration) -> usize {
    let timeout = format!("to={},", timeout.as_millis());
    let members = 0..server.members.len();
    let all = members.map(|member| server.four_letter(member, "cons").unwrap());
    all.map(|listed| listed.matches(&timeout).count()).sum()
}

pub(crate) fn crowdable() -> Options {
    Cluster::options().members(1).set("maxClientCnxns", "12")
}

/// Takes all remaining connections of a `crowdable` server. A client that loses its connection can
/// reconnect, but no other client can connect.
pub(crate) async fn crowd(server: &Cluster) -> Vec<Client> {
    let address = server.members[0].address().to_string();
    let mut crowd = Vec::new();
    // Connect one by one, because the server doesn't count connections that are being opened.
    while let Ok(client) = Client::connector()
        .with_session_timeout(Duration::from_secs(20))
        .with_fail_eagerly()
        .connect(&address)
        .await
    {
        crowd.push(client);
        assert!(crowd.len() < 12, "it takes any number");
    }
    crowd
}

pub(crate) fn claim(locked: &str) -> Claim {
    claim_for(locked, TTL)
}

pub(crate) fn node_of(claim: &Claim) -> String {
    let t = claim.token.to_string();
    format!("_c_{}-{}-{}-{}-{}-lock-", &t[..8], &t[8..12], &t[12..16], &t[16..20], &t[20..])
}

pub(crate) async fn renew(zookeeper: &Backend, claim: &Claim) -> RenewalOutcome {
    let renewals = zookeeper.renew(&[Renew::of(claim)]).await.unwrap();
    renewals[0].outcome.clone()
}

pub(crate) async fn renewed_soon(zookeeper: &Backend, claim: &Claim) {
    eventually(|| async {
        matches!(renew(zookeeper, claim).await, RenewalOutcome::Renewed { .. }).then_some(())
    })
    .await;
}

pub(crate) fn ephemeral() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

pub(crate) fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}
