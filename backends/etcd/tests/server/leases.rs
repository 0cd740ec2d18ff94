use std::time::Duration;

use lockwright_core::{DistributedLock, Fence, Reason, ReleaseMode, Renew, RenewalOutcome};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::Traffic;
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::{
    FOR_EVER, LIMIT, busy, claim, claim_for, connect, eventually, grant, grant_next, granted_soon,
    leases, name, server_and_client, server_and_proxy, stubborn,
};

const SHORT: Duration = Duration::from_secs(2);

async fn holder(etcd: &Etcd) -> Option<Fence> {
    etcd.inspect(&name("orders")).await.unwrap().holders.first().and_then(|holder| holder.fence)
}

/// etcd deletes a lease's keys up to a second after the lease expires. Until then, the first key in
/// the queue may be on an expired lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ran_out_during_the_wait_grants_nothing() {
    let (cluster, proxy, url) = server_and_proxy();
    let operator = connect(&cluster.url()).await;
    // In most rounds, the request arrives before the deletion.
    for _ in 0..6 {
        let waiter = stubborn(&url, LIMIT).await;
        let (holds, waits) = (claim("orders"), claim_for("orders", SHORT));
        grant(&operator, &holds).await;
        assert!(busy(&waiter, &waits, FOR_EVER).await.queued);
        proxy.set(Traffic::Hold);
        let expired = Instant::now() + SHORT;
        operator.release(&holds, ReleaseMode::Plain).await.unwrap();
        let first = holder(&operator).await.unwrap();
        sleep_until(expired).await;
        let sent = Instant::now();
        proxy.set(Traffic::Forward);
        let granted = granted_soon(&waiter, &waits, FOR_EVER).await;
        assert_ne!(granted.fence, first, "its lease had expired");
        let valid = granted.valid.unwrap_or(SHORT);
        while sent.elapsed() < valid * 9 / 10 {
            assert_eq!(holder(&operator).await, Some(granted.fence), "{:?}", sent.elapsed());
            sleep(Duration::from_millis(20)).await;
        }
        waiter.release(&waits, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_a_lease_in_use_is_for_as_long_as_that_is_good() {
    let (cluster, etcd) = server_and_client().await;
    let ttl = Duration::from_secs(4);
    grant(&etcd, &claim_for("first", ttl)).await;
    // The shared lease is renewed each quarter of its TTL, so each grant has more than two thirds
    // of the TTL left.
    for at in 0..8 {
        let claim = claim_for(&format!("later-{at}"), ttl);
        let granted = grant(&etcd, &claim).await;
        let valid = granted.valid.unwrap_or(ttl);
        assert!(valid >= ttl * 2 / 3 && valid <= ttl, "{valid:?}");
        sleep(ttl / 13).await;
    }
    // After the client is dropped, the server must keep the hold for at least its validity.
    let last = claim_for("last", ttl);
    let begun = Instant::now();
    let valid = grant(&etcd, &last).await.valid.unwrap_or(ttl);
    let operator = connect(&cluster.url()).await;
    drop(etcd);
    eventually(|| async {
        operator.inspect(&last.name).await.unwrap().holders.is_empty().then_some(())
    })
    .await;
    assert!(begun.elapsed() >= valid, "{:?} of {valid:?}", begun.elapsed());
}

/// After an outage, the renewals of all leases are due at once.
#[tokio::test(flavor = "multi_thread")]
async fn many_leases_are_renewed_at_the_same_time() {
    let (_cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    let ttl = |at: u64| Duration::from_secs(60 + at);
    let claims: Vec<_> = (0..40).map(|at| claim_for(&format!("held-{at}"), ttl(at))).collect();
    for claim in &claims {
        grant(&etcd, claim).await;
    }
    let holds: Vec<_> = claims.iter().map(Renew::of).collect();
    // Each renewal takes two round trips. All would take 16 s if sent one after the other.
    let delay = Duration::from_millis(100);
    proxy.set(Traffic::Delay(delay));
    let begun = Instant::now();
    let renewals = etcd.renew(&holds).await.unwrap();
    let took = begun.elapsed();
    for renewal in &renewals {
        assert!(matches!(renewal.outcome, RenewalOutcome::Renewed { .. }), "{renewals:?}");
    }
    assert!(took >= delay * 4, "there was no delay: it showed nothing");
    assert!(took < delay * 4 * 40 / 2, "late: {took:?}");
}

/// One lease's renewal gets no response. `renew` must return the other results before its caller's
/// timeout.
#[tokio::test(flavor = "multi_thread")]
async fn silent_lease_delays_no_other_renewal() {
    let (_cluster, proxy, url) = server_and_proxy();
    let etcd = connect(&url).await;
    // The renewal of `held` gets no response. `over` has ended, so its renewal sends no request.
    let (held, over) = (claim("held"), claim_for("over", SHORT));
    for claim in [&held, &over] {
        grant(&etcd, claim).await;
    }
    etcd.release(&over, ReleaseMode::Reconcile).await.unwrap();
    proxy.set(Traffic::SwallowAnswers);
    let holds = [Renew::of(&over), Renew::of(&held)];
    let begun = Instant::now();
    let renewals = etcd.renew(&holds).await.unwrap();
    assert!(begun.elapsed() < LIMIT / 2, "late: {:?}", begun.elapsed());
    assert!(matches!(renewals[0].outcome, RenewalOutcome::NotHeld(_)), "{renewals:?}");
    assert_eq!(renewals[1].outcome, RenewalOutcome::Indeterminate);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_is_not_renewed() {
    let (_cluster, etcd) = server_and_client().await;
    let (holds, waits) = (claim("orders"), claim("orders"));
    grant(&etcd, &holds).await;
    busy(&etcd, &waits, FOR_EVER).await;
    let renewals = etcd.renew(&[Renew::of(&holds), Renew::of(&waits)]).await.unwrap();
    assert!(matches!(renewals[0].outcome, RenewalOutcome::Renewed { .. }), "{renewals:?}");
    assert_eq!(renewals[1].outcome, RenewalOutcome::NotHeld(Reason::Gone));
    busy(&etcd, &claim("orders"), FOR_EVER).await;
    etcd.release(&holds, ReleaseMode::Plain).await.unwrap();
    assert!(grant_next(&etcd, &waits).await.waiters, "another one waits behind it");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_client_revokes_its_empty_leases() {
    let (cluster, etcd) = server_and_client().await;
    let (held, other) = (claim("held"), claim("other"));
    grant(&etcd, &held).await;
    grant(&etcd, &other).await;
    etcd.release(&other, ReleaseMode::Plain).await.unwrap();
    let second = connect(&cluster.url()).await;
    grant(&second, &other).await;
    second.release(&other, ReleaseMode::Plain).await.unwrap();
    assert_eq!(leases(&cluster), 2);
    drop(second);
    eventually(|| async { (leases(&cluster) == 1).then_some(()) }).await;
    drop(etcd);
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!(leases(&cluster), 1, "a lease with a hold is left to expire");
}
