use std::sync::Arc;
use std::time::Duration;

use lockwright_conformance::queue_tests::{self, claim_as};
use lockwright_core::{Claim, DistributedLock, ErrorKind, Locks, Mode, ReleaseMode, Wait};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::time::Instant;

use crate::common::{FOR_EVER, busy, claim_for, connect, fails, grant, member_and_client};
use crate::queue::queue;

const PERMIT: Mode = Mode::Permits { count: 1, of: 3 };

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_waited_share_a_fence() {
    let (cluster, etcd) = member_and_client().await;
    let other = connect(&cluster.url()).await;
    queue_tests::readers_that_waited_share_a_fence(&etcd, &other).await;
    assert!(queue(&cluster, "x").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_gives_up_leaves_readers_their_fence() {
    let (_cluster, etcd) = member_and_client().await;
    queue_tests::a_writer_that_gives_up_leaves_readers_their_fence(&etcd).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_claim_leaves_nothing() {
    let (cluster, etcd) = member_and_client().await;
    queue_tests::refused_request_leaves_nothing(&etcd, async || queue(&cluster, "x").await.len())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_are_kept_in_order() {
    let (cluster, etcd) = member_and_client().await;
    let locks = |etcd| Locks::builder(Arc::new(etcd)).ttl(Duration::from_secs(20)).build().unwrap();
    let clients = [locks(etcd), locks(connect(&cluster.url()).await)];
    queue_tests::many_waiters_are_kept_in_order(&clients).await;
    for name in ["rw", "permits"] {
        assert!(queue(&cluster, name).await.is_empty());
    }
}

/// A key of Go's `concurrency` is exclusive.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_key_is_a_writers() {
    let (cluster, etcd) = member_and_client().await;
    let reads = claim_as(Mode::Shared);
    grant(&etcd, &reads).await;
    cluster.ctl(&["put", "lockwright/x/1f", ""]).unwrap();
    busy(&etcd, &claim_as(Mode::Shared), Wait::No).await;
    etcd.release(&reads, ReleaseMode::Plain).await.unwrap();
    let shown = etcd.inspect(&reads.name).await.unwrap();
    assert!(matches!(&shown.holders[..], [one] if one.mode == Mode::Exclusive), "{shown:?}");
    busy(&etcd, &claim_as(Mode::Shared), Wait::No).await;
    let permit = etcd.try_acquire(&claim_as(PERMIT)).await;
    fails(permit, ErrorKind::Conflict);
    cluster.ctl(&["del", "lockwright/x/1f"]).unwrap();
    grant(&etcd, &claim_as(Mode::Shared)).await;
}

/// A Go program gets the lock ahead of a waiter for permits. The waiter's request fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_becomes_another_programs_lock_is_left() {
    let (cluster, etcd) = member_and_client().await;
    let (held, waits) = (claim_as(PERMIT), claim_as(PERMIT));
    grant(&etcd, &held).await;
    cluster.ctl(&["put", "lockwright/x/1f", ""]).unwrap();
    busy(&etcd, &waits, FOR_EVER).await;
    etcd.release(&held, ReleaseMode::Plain).await.unwrap();
    let answer = etcd.acquire(&waits, FOR_EVER).await;
    fails(answer, ErrorKind::Conflict);
    assert_eq!(queue(&cluster, "x").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claims_get_at_most_all_permits() {
    let (cluster, etcd) = member_and_client().await;
    let other = Arc::new(connect(&cluster.url()).await);
    queue_tests::those_who_ask_at_once_get_no_more_than_there_are([Arc::new(etcd), other]).await;
    assert!(queue(&cluster, "x").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_delays_a_reader_for_half_its_ttl() {
    let cluster = testbed::Etcd::options().members(1).start().unwrap();
    let proxy = Proxy::start(cluster.members[0].address()).unwrap();
    let etcd = Etcd::connect(&cluster.url_through([proxy.port()])).await.unwrap();
    let ttl = Duration::from_secs(2);
    // This grant creates the lease.
    grant(&etcd, &claim_for("warm", ttl)).await;
    proxy.set(Traffic::SwallowAll);
    let begun = Instant::now();
    let reads = Claim { ttl, ..claim_as(Mode::Shared) };
    fails(etcd.try_acquire(&reads).await, ErrorKind::Unavailable);
    assert!(begun.elapsed() < ttl, "late: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_permits_are_on_one_lease() {
    let (cluster, etcd) = member_and_client().await;
    let claims: Vec<_> = (0..3).map(|_| claim_as(PERMIT)).collect();
    for claim in &claims {
        grant(&etcd, claim).await;
    }
    let keys = queue(&cluster, "x").await;
    let lease = |key: &str| key.split(['/', '.']).nth(2).unwrap().to_owned();
    let leases: std::collections::HashSet<_> = keys.iter().map(|(key, _)| lease(key)).collect();
    assert_eq!((keys.len(), leases.len()), (3, 1), "{keys:?}");
    for (claim, (key, _)) in claims.iter().zip(&keys) {
        assert!(key.ends_with(&format!(".p1of3.{}", claim.token)), "{key}");
    }
}
