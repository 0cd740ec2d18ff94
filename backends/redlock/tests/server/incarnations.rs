use std::time::{Duration, Instant};

use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind};
use lockwright_redlock::{Config, NodeStatus, Redlock};
use lockwright_testbed as testbed;

use crate::common::{Five, claim_for, eventually, fails_with, grant, options};

const LARGEST_TTL: Duration = Duration::from_secs(20);

const INCARNATION: [&str; 2] = ["GET", "lockwright:{redlock}:certificate:"];

fn keeping_every_write() -> testbed::redis::Options {
    testbed::Redis::options().append_only("always")
}

async fn five() -> Five {
    Five::start_as(keeping_every_write(), options().largest_ttl(LARGEST_TTL)).await
}

/// Nodes 0 to 2 store a hold of `x`, and all five vote.
async fn bare_quorum() -> (Five, Redlock, Instant) {
    let five = five().await;
    let redlock = five.connect().await;
    let (five, since) = hold_by_a_bare_quorum(five, &redlock).await;
    (five, redlock, since)
}

async fn hold_by_a_bare_quorum(mut five: Five, redlock: &Redlock) -> (Five, Instant) {
    five.each([3, 4], |server| server.kill());
    let since = Instant::now();
    grant(redlock, &claim_for("x", LARGEST_TTL)).await;
    five.each([3, 4], |server| server.restart(true).unwrap());
    (five, since)
}

async fn no_client_is_admitted(five: &Five, since: Instant) {
    if let Ok(other) = five.config().connect().await {
        for _ in 0..3 {
            let asked = other.try_acquire(&claim_for("x", LARGEST_TTL)).await;
            assert!(!matches!(asked, Ok(AcquireOutcome::Granted(_))), "two hold it: {asked:?}");
        }
    }
    assert!(since.elapsed() < LARGEST_TTL, "late: too slow to show anything");
}

async fn is_linked(replica: &testbed::Redis) {
    let is_up = || replica.info("master_link_status").as_deref() == Some("up");
    eventually(async || is_up().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_another_nodes_data() {
    let (mut five, _redlock, since) = bare_quorum().await;
    let origin = five.server(3).port().to_string();
    let copy = five.server(2);
    copy.command::<()>(&["REPLICAOF", "127.0.0.1", &origin]).unwrap();
    is_linked(copy).await;
    copy.command::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    eventually(async || {
        let info: String = copy.command(&["INFO", "persistence"]).ok()?;
        let is_at_rest = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"]
            .map(|fact| info.contains(fact));
        is_at_rest.iter().all(|is| *is).then_some(())
    })
    .await;
    // The restart clears every sign that the server was a replica.
    copy.kill();
    copy.restart(true).unwrap();
    no_client_is_admitted(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_data_as_its_replica_had_them() {
    let mut five = five().await;
    let redlock = five.connect().await;
    let replica = testbed::Redis::options().replica_of(five.server(2)).start().unwrap();
    is_linked(&replica).await;
    // The replica becomes a master before `x` is held. Then node 2 becomes this master's replica
    // and loses the hold. At last, node 2 becomes a master again.
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    let (mut five, since) = hold_by_a_bare_quorum(five, &redlock).await;
    let node = five.server(2);
    node.command::<()>(&["REPLICAOF", "127.0.0.1", &replica.port().to_string()]).unwrap();
    is_linked(node).await;
    node.command::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    no_client_is_admitted(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_which_some_were_thrown_out() {
    let (mut five, _redlock, since) = bare_quorum().await;
    let node = five.server(2);
    node.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).unwrap();
    node.command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]).unwrap();
    eventually(async || {
        let _ = five.server(2).command::<()>(&["SET", "filler", "1"]);
        five.holder(2, "x").is_none().then_some(())
    })
    .await;
    let incarnation: Option<String> = five.server(2).command(&INCARNATION).unwrap();
    assert!(incarnation.is_some(), "it has no end, so it stays");
    five.server(2).command::<()>(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    no_client_is_admitted(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_databases_data() {
    let (mut five, _redlock, since) = bare_quorum().await;
    let other = |url: String| lockwright_redis::Config::new(&format!("{url}/1")).unwrap();
    let other = five.fleet.urls().into_iter().map(other).collect();
    let other = Config::of(other, five.options.clone()).connect().await.unwrap();
    for (address, status) in other.admit().await {
        assert!(matches!(status, NodeStatus::Votes), "{address}: {status:?}");
    }
    five.server(2).command::<()>(&["SWAPDB", "0", "1"]).unwrap();
    no_client_is_admitted(&five, since).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_synced_while_it_is_rewritten() {
    let servers = keeping_every_write().set("no-appendfsync-on-rewrite", "yes");
    let mut five = Five::start_as(servers, options()).await;
    let incarnation: String = five.server(0).command(&INCARNATION).unwrap();
    assert!(incarnation.ends_with(" 0"), "it says that every write is kept: {incarnation}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_another_largest_ttl_does_no_lasting_harm() {
    let mut five = five().await;
    let right = five.connect().await;
    grant(&right, &claim_for("x", LARGEST_TTL)).await;
    five.server(2).command::<()>(&["FLUSHALL"]).unwrap();
    five.options = options().largest_ttl(LARGEST_TTL / 2);
    let says = "its fleet's largest TTL is 20s, and this client's is 10s";
    fails_with(five.config().connect().await, ErrorKind::InvalidConfig, says);
    // The rejected client has recorded its own largest TTL on node 2, which had no data.
    let _ = right.try_acquire(&claim_for("y", LARGEST_TTL)).await;
    five.server(2).command::<()>(&["FLUSHALL"]).unwrap();
    eventually(async || {
        let all = right.admit().await;
        all.iter().all(|(_, status)| matches!(status, NodeStatus::Votes)).then_some(())
    })
    .await;
}
