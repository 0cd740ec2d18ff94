use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::*;
use lockwright_core::{Claim, DistributedLock, Renew, RenewalOutcome};
use lockwright_testbed as testbed;
use lockwright_zookeeper::{Config, ZooKeeper};

pub(crate) const TTL: Duration = Duration::from_secs(4);

pub(crate) async fn connect(url: &str) -> ZooKeeper {
    patient(Config::new(url).unwrap()).connect().await.unwrap()
}

pub(crate) fn patient(config: Config) -> Config {
    config.response_timeout(LIMIT).connect_timeout(LIMIT).silence_timeout(LIMIT)
}

pub(crate) async fn ensemble_and_client() -> (testbed::ZooKeeper, ZooKeeper) {
    let ensemble = testbed::ZooKeeper::start().unwrap();
    let zookeeper = connect(&ensemble.url()).await;
    (ensemble, zookeeper)
}

pub(crate) async fn server_and_client() -> (testbed::ZooKeeper, ZooKeeper) {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    let zookeeper = connect(&server.url()).await;
    (server, zookeeper)
}

/// Connects the client library itself, to simulate other programs.
pub(crate) async fn raw(url: &str) -> zookeeper_client::Client {
    let servers = url.strip_prefix("zookeeper:").unwrap();
    zookeeper_client::Client::connector()
        .with_session_timeout(Duration::from_secs(20))
        .connect(servers)
        .await
        .unwrap()
}

pub(crate) fn sessions(server: &testbed::ZooKeeper, timeout: Duration) -> usize {
    let timeout = format!("to={},", timeout.as_millis());
    let members = 0..server.members.len();
    let all = members.map(|member| server.four_letter(member, "cons").unwrap());
    all.map(|listed| listed.matches(&timeout).count()).sum()
}

pub(crate) fn crowdable() -> testbed::zookeeper::Options {
    testbed::ZooKeeper::options().members(1).set("maxClientCnxns", "12")
}

/// Takes all remaining connections of a `crowdable` server. A client that loses its connection can
/// reconnect, but no other client can connect.
pub(crate) async fn crowd(server: &testbed::ZooKeeper) -> Vec<zookeeper_client::Client> {
    let address = server.members[0].address().to_string();
    let mut crowd = Vec::new();
    // Connect one by one, because the server doesn't count connections that are being opened.
    while let Ok(client) = zookeeper_client::Client::connector()
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

/// Returns the name of the claim's node without its sequence.
pub(crate) fn node_of(claim: &Claim) -> String {
    let t = claim.token.to_string();
    format!("_c_{}-{}-{}-{}-{}-lock-", &t[..8], &t[8..12], &t[12..16], &t[16..20], &t[20..])
}

pub(crate) async fn renew(zookeeper: &ZooKeeper, claim: &Claim) -> RenewalOutcome {
    let renewals = zookeeper.renew(&[Renew::of(claim)]).await.unwrap();
    renewals[0].outcome.clone()
}
