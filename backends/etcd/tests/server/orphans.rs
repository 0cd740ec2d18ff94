//! Tests with orphans: keys on a client's lease that the client hasn't registered.

use std::time::Duration;

use etcd_client::{Client, PutOptions, Txn, TxnOp};
use lockwright_core::{AcquireOutcome, DistributedLock, ErrorKind, ReleaseMode, Renew};
use lockwright_etcd::{Config, Etcd};
use lockwright_testbed::proxy::Traffic;
use tokio::time::{Instant, sleep};

use crate::common::{
    FOR_EVER, LIMIT, busy, claim_for, connect, eventually, fails, grant, name, one_server,
    released, renewed, server_and_proxy,
};
use crate::queue::queue;

/// The number of another program's keys: many more than a client checks at a time.
const OTHERS: usize = 2_000;

/// Connects a client that checks for orphans once per 3 s or once per TTL, whichever is longer.
async fn watchful(url: &str) -> Etcd {
    let hour = Duration::from_secs(3_600);
    let config = Config::new(url).unwrap().connect_timeout(LIMIT).keep_alive(hour, hour);
    config.response_timeout(Duration::from_secs(1)).connect().await.unwrap()
}

/// The held claim keeps the lease alive, and thus the restored key of the released claim.
#[tokio::test(flavor = "multi_thread")]
async fn restored_claims_are_removed_and_holds_stay() {
    let mut cluster = one_server();
    let etcd = watchful(&cluster.url()).await;
    let ttl = Duration::from_secs(8);
    let (ended, held) = (claim_for("ended", ttl), claim_for("held", ttl));
    for claim in [&ended, &held] {
        grant(&etcd, claim).await;
    }
    let (key, created) = queue(&cluster, "held").await.remove(0);
    let lease = key.rsplit('/').next().unwrap().to_owned();
    // The client must not remove these keys of another program, but must find the orphan among
    // them.
    let mut others: Vec<_> = (1..OTHERS).map(|at| format!("lockwright/others/{at}")).collect();
    others.push(format!("lockwright/others/{lease}"));
    let mut client = Client::connect(cluster.endpoints(), None).await.unwrap();
    let on_lease = PutOptions::new().with_lease(i64::from_str_radix(&lease, 16).unwrap());
    for some in others.chunks(100) {
        let puts = some.iter().map(|key| TxnOp::put(key.as_str(), "", Some(on_lease.clone())));
        client.txn(Txn::new().and_then(puts.collect::<Vec<_>>())).await.unwrap();
    }
    let snapshot = cluster.snapshot().unwrap();
    etcd.release(&ended, ReleaseMode::Plain).await.unwrap();
    cluster.restore(&snapshot).unwrap();
    assert_eq!(queue(&cluster, "ended").await.len(), 1, "the snapshot is from before");
    let begun = Instant::now();
    while !queue(&cluster, "ended").await.is_empty() {
        assert!(begun.elapsed() < LIMIT * 2, "late: it lasts as long as its lease");
        let _ = etcd.renew(&[Renew::of(&held)]).await;
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(queue(&cluster, "held").await, [(key, created)], "its lease has ended");
    assert_eq!(queue(&cluster, "others").await.len(), OTHERS);
    // Without the orphan, the lease accepts a claim of the orphan's name again.
    renewed(&etcd, &held).await;
    eventually(|| async {
        let again = claim_for("ended", ttl);
        grant(&etcd, &again).await;
        let is_on_it = queue(&cluster, "ended").await[0].0.ends_with(&lease);
        etcd.release(&again, ReleaseMode::Plain).await.unwrap();
        is_on_it.then_some(())
    })
    .await;
}

/// The key of an unanswered request is registered, so it isn't an orphan.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_and_waiting_claims_are_not_removed() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = watchful(&url).await;
    let other = connect(&cluster.url()).await;
    let ttl = Duration::from_secs(3);
    grant(&other, &claim_for("orders", LIMIT)).await;
    let (first, unsure, waits) =
        (claim_for("first", ttl), claim_for("unsure", ttl), claim_for("orders", ttl));
    // This grant creates the lease.
    grant(&etcd, &first).await;
    busy(&etcd, &waits, FOR_EVER).await;
    proxy.set(Traffic::SwallowAnswers);
    fails(etcd.acquire(&unsure, FOR_EVER).await, ErrorKind::Indeterminate);
    proxy.drop_connections();
    proxy.set(Traffic::Forward);
    let places = [queue(&cluster, "unsure").await, queue(&cluster, "orders").await];
    assert_eq!(places.each_ref().map(Vec::len), [1, 2]);
    // Two checks take less than this time, and a claim is overdue only after 20 s.
    sleep(ttl * 5 / 2).await;
    let after = [queue(&cluster, "unsure").await, queue(&cluster, "orders").await];
    assert_eq!(after, places);
    let attempt = eventually(|| async { etcd.acquire(&unsure, FOR_EVER).await.ok() }).await;
    assert!(matches!(attempt, AcquireOutcome::Granted(_)), "{attempt:?}");
    assert!(!etcd.inspect(&name("unsure")).await.unwrap().holders.is_empty());
    released(&etcd, &unsure, ReleaseMode::Plain).await;
    // The first request might still arrive, so the release leaves a tombstone.
    let ended = cluster.ctl(&["get", "lockwright/ended:", "--prefix", "--keys-only"]).unwrap();
    assert!(ended.contains(&unsure.token.to_string()), "{ended}");
}
