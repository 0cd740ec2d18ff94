use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Claim, DistributedLock, LockName, Reason, Renew, RenewalOutcome,
};
use lockwright_zookeeper::ZooKeeper;

use crate::common::{
    Cluster, claim_for, connect, eventually, figure, grant, raw, renew, renewed, renewed_soon,
    server_and_client, server_and_proxy,
};

const HOLDS: usize = 200;

const LONG: Duration = Duration::from_secs(20);

/// Renews the holds. Returns how many packets the server received.
async fn renew_all(server: &Cluster, zookeeper: &ZooKeeper, holds: &[Claim]) -> usize {
    let before = figure(server, "zk_packets_received");
    let holds: Vec<_> = holds.iter().map(Renew::of).collect();
    for renewal in zookeeper.renew(&holds).await.unwrap() {
        assert!(matches!(renewal.outcome, RenewalOutcome::Renewed { .. }), "{renewal:?}");
    }
    figure(server, "zk_packets_received") - before
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_read_each_node_once_per_connection() {
    let (server, proxy, url) = server_and_proxy();
    let zookeeper = connect(&url).await;
    let holds: Vec<_> = (0..HOLDS).map(|at| claim_for(&format!("x{at}"), LONG)).collect();
    for held in &holds {
        grant(&zookeeper, held).await;
    }
    assert!(renew_all(&server, &zookeeper, &holds).await >= HOLDS);
    let quiet = renew_all(&server, &zookeeper, &holds).await;
    assert!(quiet < HOLDS / 4, "{quiet} packets");

    proxy.drop_connections();
    renewed_soon(&zookeeper, &holds[0]).await;
    assert!(renew_all(&server, &zookeeper, &holds[1..]).await >= HOLDS - 1);
    let quiet = renew_all(&server, &zookeeper, &holds).await;
    assert!(quiet < HOLDS / 4, "{quiet} packets");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_detects_a_change() {
    let (server, zookeeper) = server_and_client().await;
    let other = connect(&server.url()).await;
    for how in [BreakMode::RunOut, BreakMode::Now] {
        for round in 0..20 {
            let held = claim_for("x", LONG);
            grant(&zookeeper, &held).await;
            if round % 2 == 0 {
                renewed(&zookeeper, &held).await;
            }
            let seen = BreakTarget::Token(held.token);
            other.break_lock(&held.name, seen, how, "me", "why").await.unwrap();
            assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
            if how == BreakMode::RunOut {
                assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
            }
            zookeeper.release(&held, lockwright_core::ReleaseMode::Plain).await.unwrap();
        }
    }
    let held = claim_for("deleted", LONG);
    grant(&zookeeper, &held).await;
    renewed(&zookeeper, &held).await;
    let raw = raw(&server.url()).await;
    let queue = "/lockwright/deleted";
    let node = raw.list_children(queue).await.unwrap().remove(0);
    raw.delete(&format!("{queue}/{node}"), None).await.unwrap();
    assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::NotHeld(Reason::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn break_during_an_outage_is_detected() {
    let (server, proxy, url) = server_and_proxy();
    let zookeeper = connect(&url).await;
    let other = connect(&server.url()).await;
    let held = claim_for("x", LONG);
    grant(&zookeeper, &held).await;
    renewed(&zookeeper, &held).await;
    proxy.cut();
    let seen = BreakTarget::Token(held.token);
    other.break_lock(&held.name, seen, BreakMode::RunOut, "me", "why").await.unwrap();
    proxy.mend();
    let outcome = eventually(|| async {
        let outcome = renew(&zookeeper, &held).await;
        (outcome != RenewalOutcome::Indeterminate).then_some(outcome)
    });
    assert_eq!(outcome.await, RenewalOutcome::NotHeld(Reason::Broken));
}

/// The client library can't reconnect a session with more than 128 KiB of watched paths.
#[tokio::test(flavor = "multi_thread")]
async fn holds_of_long_names_survive_a_reconnect() {
    let (server, proxy, url) = server_and_proxy();
    let zookeeper = connect(&url).await;
    let name = |at: usize| format!("{at}{}", "x".repeat(LockName::MAX_LEN - 3));
    let holds: Vec<_> = (0..2 * HOLDS).map(|at| claim_for(&name(at), LONG)).collect();
    for held in &holds {
        grant(&zookeeper, held).await;
    }
    renew_all(&server, &zookeeper, &holds).await;
    proxy.drop_connections();
    renewed_soon(&zookeeper, &holds[0]).await;
    renew_all(&server, &zookeeper, &holds).await;
}
