use std::time::Duration;

use lockwright_core::{Claim, DistributedLock, ErrorKind, Mode};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;
use tokio::time::Instant;

use crate::clusters::shared::{PERMIT, claim_as};
use crate::common::{claim_for, fails, grant, server_and_client, server_and_proxy};
use crate::queue::queue;

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
