use std::time::Duration;

use etcd_client::{Client, GetOptions, SortOrder, SortTarget};
use lockwright_core::{Claim, DistributedLock, ErrorKind, Locks, ReleaseMode, RenewalMode};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::{Proxy, Traffic};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{
    Cluster, FOR_EVER, LIMIT, busy, claim, claim_for, connect, eventually, fails, grant,
    server_and_client, server_and_proxy, stubborn,
};

/// Returns a queue's keys in order of creation, with their creation revisions.
pub(crate) async fn queue(cluster: &Cluster, name: &str) -> Vec<(String, i64)> {
    let mut client = Client::connect(cluster.endpoints(), None).await.unwrap();
    let sorted = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    let found = client.get(format!("lockwright/{name}/"), Some(sorted)).await.unwrap();
    let place =
        |key: &etcd_client::KeyValue| (key.key_str().unwrap().to_owned(), key.create_revision());
    found.kvs().iter().map(place).collect()
}

/// A client removes a waiting claim that isn't repeated for the longer of a TTL and 20 s. The test
/// repeats its claims for 23 s, and they keep their places.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_acquire_keeps_the_queue_position() {
    let (cluster, etcd) = server_and_client().await;
    let waiter = connect(&cluster.url()).await;
    grant(&etcd, &claim("orders")).await;
    let short = Duration::from_secs(2);
    let mut waits = [claim_for("orders", short), claim_for("orders", short)];
    waits[1].renewal_mode = RenewalMode::Off;
    let begun = Instant::now();
    let mut first = Vec::new();
    while begun.elapsed() < Duration::from_secs(23) {
        for claim in &waits {
            assert!(busy(&waiter, claim, FOR_EVER).await.queued);
        }
        let now = queue(&cluster, "orders").await;
        if first.is_empty() {
            first.clone_from(&now);
            assert_eq!(first.len(), 3);
        }
        assert_eq!(now, first, "after {:?}", begun.elapsed());
        sleep(Duration::from_millis(400)).await;
    }
}

/// No background task renews the lease of a fixed claim, so the waiter's polls must renew it.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_fixed_claim_keeps_its_lease() {
    let (cluster, etcd) = server_and_client().await;
    grant(&etcd, &claim("orders")).await;
    let locks = Locks::new(connect(&cluster.url()).await).unwrap();
    let ttl = Duration::from_secs(2);
    let request = locks.mutex("orders").ttl(ttl).fixed().no_limit();
    let waiting = tokio::spawn(async move { request.acquire().await });
    let queued = || async { Some(queue(&cluster, "orders").await).filter(|keys| keys.len() == 2) };
    let first = eventually(queued).await;
    sleep(ttl * 4).await;
    assert_eq!(queue(&cluster, "orders").await, first);
    waiting.abort();
}

/// The client puts the key, but its next read fails, so that the outcome is unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_after_the_key_was_put_is_no_certain_one() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = stubborn(&format!("{url}?names=raw"), Duration::from_secs(2)).await;
    // With raw names, these keys make the client read the queue again after the put.
    for nested in ["1", "2"] {
        cluster.ctl(&["put", &format!("lockwright/orders/nested/{nested}"), ""]).unwrap();
    }
    grant(&etcd, &claim("first")).await;
    let delay = Duration::from_millis(400);
    let lost = claim("orders");
    proxy.set(Traffic::Delay(delay));
    let (asked, ()) = tokio::join!(etcd.acquire(&lost, FOR_EVER), async {
        eventually(|| async { (queue(&cluster, "orders").await.len() == 3).then_some(()) }).await;
        // Let the put's response arrive, but not the next request.
        sleep(delay * 3 / 2).await;
        proxy.set(Traffic::SwallowAll);
    });
    fails(asked, ErrorKind::Indeterminate);
    let _ = ended(&etcd, &lost, &proxy).await;
    assert_eq!(queue(&cluster, "orders").await.len(), 2);
}

/// The removal of an overdue claim gets no response. If the claim is then acquired again, the
/// client must not forget the claim's key.
#[tokio::test(flavor = "multi_thread")]
async fn overdue_claim_is_removed_despite_a_repeated_acquire() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = stubborn(&url, Duration::from_secs(1)).await;
    let ttl = Duration::from_secs(8);
    let (late, second) = (claim_for("orders", ttl), claim_for("orders", ttl));
    let begun = Instant::now();
    grant(&etcd, &late).await;
    // This claim needs a second lease, because a lease carries one exclusive claim of a name.
    busy(&etcd, &second, FOR_EVER).await;
    etcd.release(&second, ReleaseMode::Plain).await.unwrap();
    sleep((ttl - Duration::from_millis(300)).saturating_sub(begun.elapsed())).await;
    proxy.set(Traffic::SwallowAll);
    sleep((ttl + Duration::from_millis(300)).saturating_sub(begun.elapsed())).await;
    assert_eq!(queue(&cluster, "orders").await.len(), 1, "it was not removed");
    etcd.acquire(&late, FOR_EVER).await.unwrap_err();
    ended(&etcd, &late, &proxy).await;
    assert_eq!(queue(&cluster, "orders").await, [], "its key stays unregistered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_dropped_while_its_lease_was_kept_alive_leaves_it() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = stubborn(&url, LIMIT).await;
    let ttl = Duration::from_secs(16);
    grant(&etcd, &claim_for("first", ttl)).await;
    proxy.set(Traffic::Hold);
    // After this time, an acquire must renew the lease first.
    sleep(ttl * 7 / 16).await;
    let dropped = claim_for("orders", ttl);
    timeout(Duration::from_millis(200), etcd.try_acquire(&dropped)).await.unwrap_err();
    proxy.set(Traffic::Forward);
    grant(&etcd, &claim_for("orders", ttl)).await;
    let lease = |key: &str| key.rsplit('/').next().unwrap().to_owned();
    let (first, orders) = (queue(&cluster, "first").await, queue(&cluster, "orders").await);
    assert_eq!(lease(&orders[0].0), lease(&first[0].0), "as if it were still there");
}

async fn ended(etcd: &Etcd, claim: &Claim, proxy: &Proxy) -> lockwright_core::ReleaseOutcome {
    proxy.set(Traffic::Forward);
    proxy.drop_connections();
    eventually(|| async { etcd.release(claim, ReleaseMode::Reconcile).await.ok() }).await
}
