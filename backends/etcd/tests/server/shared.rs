use std::time::Duration;

use lockwright_core::{Claim, DistributedLock, ErrorKind, Mode, ReleaseMode, Wait};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;
use tokio::time::Instant;

use crate::clusters::shared::claim_as;
use crate::common::{FOR_EVER, busy, claim_for, fails, grant, server_and_client, server_and_proxy};
use crate::queue::queue;

const PERMIT: Mode = Mode::Permits { count: 1, of: 3 };

/// A key of Go's `concurrency` is exclusive.
#[tokio::test(flavor = "multi_thread")]
async fn another_programs_key_is_a_writers() {
    let (cluster, etcd) = server_and_client().await;
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
    let (cluster, etcd) = server_and_client().await;
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
async fn silent_server_delays_a_reader_for_half_its_ttl() {
    let (_cluster, proxy, url) = server_and_proxy();
    let etcd = Etcd::connect(&url).await.unwrap();
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
    let (cluster, etcd) = server_and_client().await;
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
