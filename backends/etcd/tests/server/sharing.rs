//! Tests with claims that share a client's leases.

use std::time::Duration;

use lockwright_core::{
    Claim, DistributedLock, ErrorKind, Mode, ReleaseMode, ReleaseOutcome, Renew, RenewalMode,
    RenewalOutcome,
};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;

use crate::clusters::shared::{PERMIT, claim_as};
use crate::common::{
    claim, claim_for, connect, eventually, fails, grant, leases, released, renewed,
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
    // The hold is on the second client's lease now, so the first client must not end it after the
    // TTL.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        renewed(&other, &claim).await;
    }
    drop(one);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(
        other.renew(&[Renew::of(&claim)]).await.unwrap()[0].outcome,
        RenewalOutcome::NotHeld(_)
    ));
}

/// A client that releases another client's hold first searches for the hold's key. Before the
/// deletion, the next hold may get the same key.
#[tokio::test(flavor = "multi_thread")]
async fn release_by_token_never_ends_the_next_hold() {
    let (cluster, proxy, url) = server_and_proxy();
    let (etcd, far) = (connect(&cluster.url()).await, connect(&url).await);
    let delay = Duration::from_millis(300);
    proxy.set(Traffic::Delay(delay));
    // This hold keeps the lease in use, so that each hold of `orders` has the same key.
    grant(&etcd, &claim("other")).await;
    for _ in 0..20 {
        let (held, later) = (claim("orders"), claim("orders"));
        grant(&etcd, &held).await;
        let key = crate::queue::queue(&cluster, "orders").await.remove(0).0;
        let begun = tokio::time::Instant::now();
        let ending = async { (far.release(&held, ReleaseMode::Plain).await, begun.elapsed()) };
        let ((ended, took), own) = tokio::join!(ending, async {
            // After this time, the search's response is in flight.
            tokio::time::sleep(delay * 2).await;
            let own = etcd.release(&held, ReleaseMode::Plain).await.unwrap();
            grant(&etcd, &later).await;
            own
        });
        let now = crate::queue::queue(&cluster, "orders").await;
        let now: Vec<_> = now.into_iter().map(|(key, _)| key).collect();
        assert_eq!(now, [key], "the next one was ended");
        etcd.release(&later, ReleaseMode::Plain).await.unwrap();
        // A round counts if the far client found the key before the other client's deletion, and
        // reports `NotHeld`. It reports `Released` after repeating its own deletion.
        let was_between = took >= delay * 3 && own == ReleaseOutcome::Released;
        if was_between && ended.unwrap() == ReleaseOutcome::NotHeld {
            return;
        }
    }
    panic!("it was never ended in between: it showed nothing");
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
