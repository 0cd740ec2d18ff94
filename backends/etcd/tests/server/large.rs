//! Tests with long queues and other programs' large values, which don't fit into one response.

use std::time::Duration;

use etcd_client::{Client, DeleteOptions, Txn, TxnOp};
use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, ReleaseMode, Wait,
};
use lockwright_testbed::proxy::Traffic;
use tokio::time::{sleep, timeout};

use crate::common::{
    Cluster, FOR_EVER, LIMIT, busy, claim, connect, eventually, grant, grant_next, name,
    one_server, released, server_and_client, server_and_proxy,
};

/// The number of large values, which together exceed the client's limit of 4 MiB per response.
const MANY: usize = 45;

async fn client(cluster: &Cluster) -> Client {
    Client::connect(cluster.endpoints(), None).await.unwrap()
}

async fn put_large(cluster: &Cluster, below: &str) {
    let mut client = client(cluster).await;
    for at in 0..MANY {
        client.put(format!("{below}{at:03}"), vec![b'x'; 100_000], None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_large_values_is_taken_refused_inspected_and_broken() {
    let cluster = one_server();
    let (etcd, other) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let held = claim("orders");
    grant(&etcd, &held).await;
    put_large(&cluster, "lockwright/orders/").await;
    let (refused, waits) = (claim("orders"), claim("orders"));
    let holder = busy(&etcd, &refused, Wait::No).await.holder.unwrap();
    assert_eq!(holder.token, Some(held.token));
    assert!(busy(&etcd, &waits, FOR_EVER).await.queued);
    let waiting = Some(u64::try_from(MANY).unwrap() + 1);
    let inspection = etcd.inspect(&name("orders")).await.unwrap();
    assert_eq!(inspection.holders[0].token, Some(held.token));
    assert_eq!(inspection.waiters, waiting);
    let page = etcd.list("", None).await.unwrap();
    assert_eq!((page.names.len(), page.names[0].waiters), (1, waiting));
    assert_eq!(page.names[0].holders[0].token, Some(held.token));
    released(&other, &waits, ReleaseMode::Plain).await;
    let seen = BreakTarget::Token(held.token);
    let broken = other.break_lock(&name("orders"), seen, BreakMode::Now, "me", "why").await;
    assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    // Now another program's key holds the lock.
    assert_eq!(busy(&etcd, &claim("orders"), Wait::No).await.holder.unwrap().token, None);
    for _ in 0..MANY {
        let broken =
            other.break_lock(&name("orders"), BreakTarget::Any, BreakMode::Now, "me", "why").await;
        assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    }
    grant(&etcd, &claim("orders")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_of_nested_names_block_no_lock() {
    let cluster = one_server();
    put_large(&cluster, "raw/a/x/").await;
    let etcd = connect(&format!("{}?names=raw&prefix=raw/", cluster.url())).await;
    let (held, waits) = (claim("a"), claim("a"));
    assert!(!grant(&etcd, &held).await.waiters);
    busy(&etcd, &claim("a"), Wait::No).await;
    busy(&etcd, &waits, FOR_EVER).await;
    etcd.release(&held, ReleaseMode::Plain).await.unwrap();
    grant_next(&etcd, &waits).await;
}

/// This server accepts a value of 5 MB. The client rejects a response above 4 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn too_large_response_is_reported_at_once() {
    let options = Cluster::options().members(1).set("max-request-bytes", "8000000");
    let cluster = options.start().unwrap();
    let mut client = client(&cluster).await;
    client.put("lockwright/a/77", vec![b'x'; 5_000_000], None).await.unwrap();
    let etcd = connect(&cluster.url()).await;
    let claim = claim("a");
    let asking = timeout(LIMIT / 2, etcd.acquire(&claim, Wait::No));
    let failure = asking.await.expect("another try is of no use").unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Indeterminate);
    assert!(failure.to_string().contains("larger than 4 MiB"), "{failure}");
    etcd.release(&claim, ReleaseMode::Reconcile).await.unwrap();
    let page = etcd.list("", None).await.unwrap();
    assert_eq!((page.names.len(), page.names[0].holders[0].token), (1, None));
    assert_eq!(etcd.inspect(&name("a")).await.unwrap().holders[0].token, None);
    let broken = etcd.break_lock(&name("a"), BreakTarget::Any, BreakMode::Now, "me", "why").await;
    assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    grant(&etcd, &crate::common::claim("a")).await;
}

/// Creates a queue of a holder and `waiters` waiters, whose keys sort before the holder's.
async fn long_queue(cluster: &Cluster, waiters: usize) {
    let mut client = client(cluster).await;
    client.put("lockwright/long/f", "", None).await.unwrap();
    let keys: Vec<_> = (0..waiters).map(|at| format!("lockwright/long/0{at:05}")).collect();
    for some in keys.chunks(100) {
        let puts: Vec<_> = some.iter().map(|key| TxnOp::put(key.as_str(), "", None)).collect();
        client.txn(Txn::new().and_then(puts)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_more_than_one_page_is_read_as_a_whole() {
    let (cluster, etcd) = server_and_client().await;
    long_queue(&cluster, 2_100).await;
    let waits = claim("long");
    busy(&etcd, &waits, FOR_EVER).await;
    let first = etcd.inspect(&name("long")).await.unwrap();
    assert_eq!(first.waiters, Some(2_101));
    let page = etcd.list("", None).await.unwrap();
    assert_eq!((page.names.len(), page.names[0].waiters), (1, Some(2_101)));
    assert_eq!(page.names[0].holders, first.holders);
    etcd.break_lock(&name("long"), BreakTarget::Any, BreakMode::Now, "me", "why").await.unwrap();
    let left = cluster.ctl(&["get", "lockwright/long/f"]).unwrap();
    assert_eq!(left.trim(), "", "another was broken");
    assert!(etcd.inspect(&name("long")).await.unwrap().holders[0].fence > first.holders[0].fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_queue_is_read_again() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    let mut client = client(&cluster).await;
    long_queue(&cluster, 1_100).await;
    let delay = Duration::from_millis(300);
    proxy.set(Traffic::Delay(delay));
    let asked = name("long");
    let (inspection, compacted) = tokio::join!(etcd.inspect(&asked), async {
        // Compact until `end`, which is after the client requests the second page.
        let end = tokio::time::Instant::now() + delay * 4;
        let mut compacted = 0;
        while tokio::time::Instant::now() < end {
            let put = client.put("elsewhere", "", None).await.unwrap();
            client.compact(put.header().unwrap().revision(), None).await.unwrap();
            compacted += 1;
            sleep(delay / 10).await;
        }
        compacted
    });
    assert_eq!(inspection.unwrap().waiters, Some(1_100), "compacted {compacted} times");
}

/// The oldest key, which holds the lock, is on the last page, and the second-oldest keys are on the
/// first. Once the client has read the first page, the test deletes the second-oldest keys, then
/// the oldest. A read of the current last page would report a holder that never held the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_read_as_it_was_at_one_moment() {
    let (cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    let mut client = client(&cluster).await;
    long_queue(&cluster, 1_100).await;
    // A longer delay would make the client replace the connection and repeat the first page.
    let delay = Duration::from_millis(150);
    proxy.set(Traffic::Delay(delay));
    let asked = name("long");
    let ranges = || cluster.members[0].metric("etcd_mvcc_range_total");
    let before = ranges();
    let (inspection, ()) = tokio::join!(etcd.inspect(&asked), async {
        // Wait until the server has read the first page.
        eventually(async || (ranges() > before).then_some(())).await;
        // One transaction put these keys, so all have the second-oldest revision.
        let second =
            TxnOp::delete("lockwright/long/0000", Some(DeleteOptions::new().with_prefix()));
        client.txn(Txn::new().and_then([second])).await.unwrap();
        client.delete("lockwright/long/f", None).await.unwrap();
    });
    let holder = inspection.unwrap().holders[0].fence.unwrap();
    let keys = client.get("lockwright/long/000100", None).await.unwrap();
    // The client reports the oldest key or, if both deletions preceded the read, the third-oldest.
    assert!(
        [2, keys.kvs()[0].create_revision().unsigned_abs()].contains(&holder.get()),
        "{holder}"
    );
}
