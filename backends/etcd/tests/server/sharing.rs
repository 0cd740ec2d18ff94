//! Tests with claims that share a client's leases.

use std::time::Duration;

use lockwright_core::{
    Claim, DistributedLock, ErrorKind, Mode, Reason, ReleaseMode, ReleaseOutcome, Renew,
    RenewalMode, RenewalOutcome, Wait,
};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;

use crate::clusters::shared::{PERMIT, claim_as};
use crate::common::{
    busy, claim, claim_for, connect, eventually, fails, grant, key_of, leases, released, renewed,
    server_and_client, server_and_proxy,
};

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_one_ttl_share_a_lease_and_fixed_ones_have_their_own() {
    let (cluster, etcd) = server_and_client().await;
    for at in 0..5 {
        grant(&etcd, &claim(&format!("shared-{at}"))).await;
    }
    assert_eq!(leases(&cluster), 1);
    let mut fixed = claim("fixed");
    fixed.renewal_mode = RenewalMode::Off;
    grant(&etcd, &fixed).await;
    assert_eq!(leases(&cluster), 2);
    grant(&etcd, &claim_for("other", Duration::from_secs(29))).await;
    assert_eq!(leases(&cluster), 3);
    grant(&etcd, &claim_for("rounded", Duration::from_millis(29_500))).await;
    assert_eq!(leases(&cluster), 3);
    released(&etcd, &fixed, ReleaseMode::Plain).await;
    eventually(|| async { (leases(&cluster) == 2).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hold_moves_to_the_backend_that_repeats_its_claim() {
    let (cluster, one) = server_and_client().await;
    let other = connect(&cluster.url()).await;
    let claim = claim_for("a", Duration::from_secs(2));
    let first = grant(&one, &claim).await;
    assert_eq!(grant(&other, &claim).await.fence, first.fence);
    let renewals = one.renew(&[Renew::of(&claim)]).await.unwrap();
    assert_eq!(renewals[0].outcome, RenewalOutcome::Indeterminate, "it was on another lease");
    renewed(&one, &claim).await;
    assert_eq!(grant(&other, &claim).await.fence, first.fence);
    let reader = claim_as(Mode::Shared);
    let first = grant(&one, &reader).await;
    assert_eq!(grant(&other, &reader).await.fence, first.fence);
    // The hold is on the second client's lease now, so the first client must not end it after the
    // TTL.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        renewed(&other, &claim).await;
    }
    // The first client's lease still has the key's name.
    busy(&one, &claim_for("a", claim.ttl), Wait::No).await;
    drop(one);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(
        other.renew(&[Renew::of(&claim)]).await.unwrap()[0].outcome,
        RenewalOutcome::NotHeld(_)
    ));
}

/// The first client's next hold has the key that the second client took over.
#[tokio::test(flavor = "multi_thread")]
async fn release_of_a_moved_hold_never_ends_the_next_hold() {
    let (cluster, one) = server_and_client().await;
    let two = connect(&cluster.url()).await;
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        let (moved, next) = (claim("orders"), claim("orders"));
        grant(&one, &moved).await;
        grant(&two, &moved).await;
        let key = key_of(&cluster, "orders");
        released(&one, &moved, ReleaseMode::Plain).await;
        grant(&one, &next).await;
        assert_eq!(key_of(&cluster, "orders"), key);
        assert_eq!(two.release(&moved, release_mode).await.unwrap(), ReleaseOutcome::NotHeld);
        assert_eq!(key_of(&cluster, "orders"), key, "the next hold was ended");
        if release_mode == ReleaseMode::Reconcile {
            fails(one.try_acquire(&moved).await, ErrorKind::Lost(Reason::Gone));
        }
        released(&two, &next, ReleaseMode::Plain).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_delays_a_reader_for_half_its_ttl() {
    let (_cluster, proxy, url) = server_and_proxy();
    let etcd = Etcd::connect(&url).await.unwrap();
    let ttl = Duration::from_secs(2);
    // This grant creates the reader's lease.
    grant(&etcd, &claim_for("warm", ttl)).await;
    proxy.set(Traffic::SwallowAll);
    let begun = tokio::time::Instant::now();
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
    let keys = crate::queue::queue(&cluster, "x").await;
    let lease = |key: &str| key.split(['/', '.']).nth(2).unwrap().to_owned();
    let leases: std::collections::HashSet<_> = keys.iter().map(|(key, _)| lease(key)).collect();
    assert_eq!((keys.len(), leases.len()), (3, 1), "{keys:?}");
    for (claim, (key, _)) in claims.iter().zip(&keys) {
        assert!(key.ends_with(&format!(".p1of3.{}", claim.token)), "{key}");
    }
}
