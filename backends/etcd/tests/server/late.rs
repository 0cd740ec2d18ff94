//! Tests with requests that arrive after the release of their claim.

use std::collections::HashSet;
use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, DistributedLock, ErrorKind, Fence, Reason, ReleaseMode, ReleaseOutcome, Renew,
    RenewalOutcome, Wait,
};
use lockwright_etcd::Etcd;
use lockwright_testbed::proxy::{Proxy, Traffic};
use tokio::time::sleep;

use crate::common::{
    Cluster, FOR_EVER, busy, claim, claim_for, connect, eventually, fails, grant, granted_soon,
    key_of, lease_of, leases, name, released, server_and_client, server_and_proxy, stubborn,
};
use crate::queue::queue;

struct Late {
    cluster: Cluster,
    proxy: Proxy,
    url: String,
}

impl Late {
    fn start() -> Self {
        let (cluster, proxy, url) = server_and_proxy();
        Self { cluster, proxy, url }
    }

    async fn hasty(&self) -> Etcd {
        stubborn(&self.url, Duration::from_millis(500)).await
    }

    fn tombstones(&self) -> usize {
        let keys = self.cluster.ctl(&["get", "lockwright/ended:", "--prefix", "--keys-only"]);
        keys.unwrap().lines().filter(|line| !line.is_empty()).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_overtaken_by_its_end_is_kept_out() {
    let late = Late::start();
    let etcd = late.hasty().await;
    for wait in [Wait::No, FOR_EVER] {
        let (other, lost) = (claim("other"), claim("orders"));
        // This grant ensures that a lease and a connection exist.
        grant(&etcd, &other).await;
        // The proxy holds the acquire until the client has given up. The acquire then competes with
        // the client's release on another connection.
        late.proxy.set(Traffic::Hold);
        fails(etcd.acquire(&lost, wait).await, ErrorKind::Indeterminate);
        late.proxy.set(Traffic::Forward);
        let ended =
            eventually(|| async { etcd.release(&lost, ReleaseMode::Reconcile).await.ok() }).await;
        assert!(matches!(ended, ReleaseOutcome::Released | ReleaseOutcome::NotHeld));
        assert!(late.tombstones() > 0);
        fails(etcd.acquire(&lost, wait).await, ErrorKind::Lost(Reason::Gone));
        // During this time, the late request must not take effect.
        sleep(Duration::from_millis(300)).await;
        assert!(etcd.inspect(&name("orders")).await.unwrap().holders.is_empty());
        released(&etcd, &other, ReleaseMode::Plain).await;
    }
    // A lease without claims ends, and its tombstones with it.
    drop(etcd);
    eventually(|| async { (late.tombstones() == 0).then_some(()) }).await;
}

/// The first request created the lease, but its response was lost. Retries must not create more
/// leases, and the client must count the TTL from the first request.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_grant_is_retried_with_the_same_lease() {
    let late = Late::start();
    let (etcd, operator) = (late.hasty().await, connect(&late.cluster.url()).await);
    let ttl = Duration::from_secs(4);
    let before = leases(&late.cluster);
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        late.proxy.set(Traffic::SwallowAnswers);
        let asked = etcd.acquire(&claim_for("orders", ttl), Wait::No).await;
        fails(asked, ErrorKind::Unavailable);
        late.proxy.set(Traffic::Forward);
    }
    eventually(|| async { (leases(&late.cluster) == before + 1).then_some(()) }).await;
    sleep((ttl * 3 / 4).saturating_sub(begun.elapsed())).await;
    let claim = claim_for("orders", ttl);
    let (sent, granted) = eventually(|| async {
        let sent = tokio::time::Instant::now();
        match etcd.acquire(&claim, Wait::No).await {
            Ok(AcquireOutcome::Granted(granted)) => Some((sent, granted)),
            _ => None,
        }
    })
    .await;
    // From here on, no renewal arrives.
    late.proxy.set(Traffic::Hold);
    assert_eq!(leases(&late.cluster), before + 1);
    let valid = granted.valid.unwrap_or(ttl);
    while sent.elapsed() < valid * 9 / 10 {
        let holders = operator.inspect(&name("orders")).await.unwrap().holders;
        assert_eq!(holders.len(), 1, "{:?} of {valid:?}", sent.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

/// Canceled claims must share a lease, because each lease costs renewals.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_cancellations_share_a_lease() {
    let (cluster, etcd) = server_and_client().await;
    let mut leases = HashSet::new();
    for round in 0..120 {
        let given_up = claim("given-up");
        grant(&etcd, &given_up).await;
        etcd.release(&given_up, ReleaseMode::Reconcile).await.unwrap();
        if round % 10 == 0 {
            let name = format!("next-{round}");
            grant(&etcd, &claim(&name)).await;
            leases.insert(lease_of(&cluster, &name));
        }
    }
    // A lease accepts no claims after 100 tombstones, so 120 cancellations need two leases.
    assert_eq!(leases.len(), 2, "{leases:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_may_be_overtaken_is_to_be_ended() {
    let late = Late::start();
    let second = Proxy::start(late.cluster.members[0].address()).unwrap();
    let ports = [late.proxy.port(), second.port()];
    let etcd = Etcd::connect(&late.cluster.url_through(ports)).await.unwrap();
    late.cluster.ctl(&["put", "lockwright/orders/77", ""]).unwrap();
    grant(&etcd, &claim("first")).await;
    let mut unsure = 0;
    for proxy in [&late.proxy, &second] {
        let refused = claim("orders");
        proxy.set(Traffic::SwallowAnswers);
        let refusal = busy(&etcd, &refused, Wait::No).await;
        unsure += usize::from(refusal.queued);
        // Make the client send the next request through the other proxy.
        proxy.drop_connections();
        proxy.set(Traffic::Forward);
        let tombstones = late.tombstones();
        etcd.release(&refused, ReleaseMode::Plain).await.unwrap();
        assert_eq!(late.tombstones(), tombstones + usize::from(refusal.queued));
    }
    assert!(unsure > 0, "it was answered at once by both ways");
}

/// The client repeats a release whose response was lost.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_release_reports_the_first_ones_outcome() {
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        let late = Late::start();
        let etcd = connect(&late.url).await;
        let held = claim("orders");
        grant(&etcd, &held).await;
        late.proxy.set(Traffic::SwallowAnswers);
        let (released, ()) = tokio::join!(etcd.release(&held, release_mode), async {
            eventually(|| async { queue(&late.cluster, "orders").await.is_empty().then_some(()) })
                .await;
            late.proxy.drop_connections();
            late.proxy.set(Traffic::Forward);
        });
        assert_eq!(released.unwrap(), ReleaseOutcome::Released);
    }
}

/// The first request may still arrive after a later one has failed, or after the hold's loss.
#[tokio::test(flavor = "multi_thread")]
async fn lost_hold_with_an_unanswered_request_leaves_a_tombstone() {
    let late = Late::start();
    let (etcd, lost) = (late.hasty().await, claim("orders"));
    grant(&etcd, &claim("other")).await;
    late.proxy.set(Traffic::SwallowAnswers);
    fails(etcd.acquire(&lost, Wait::No).await, ErrorKind::Indeterminate);
    late.proxy.cut();
    fails(etcd.acquire(&lost, Wait::No).await, ErrorKind::Unavailable);
    late.proxy.set(Traffic::Forward);
    late.proxy.mend();
    granted_soon(&etcd, &lost, Wait::No).await;
    late.cluster.ctl(&["del", &key_of(&late.cluster, "orders")]).unwrap();
    let renewals = etcd.renew(&[Renew::of(&lost)]).await.unwrap();
    assert_eq!(renewals[0].outcome, RenewalOutcome::NotHeld(Reason::Gone));
    assert_eq!(late.tombstones(), 1);
    let deleted = claim("deleted");
    grant(&etcd, &deleted).await;
    late.cluster.ctl(&["del", &key_of(&late.cluster, "deleted")]).unwrap();
    fails(etcd.try_acquire(&deleted).await, ErrorKind::Lost(Reason::Gone));
}

/// The client repeats an acquire whose response was lost.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_acquire_has_the_first_ones_fence() {
    let late = Late::start();
    let (etcd, waits) = (connect(&late.url).await, claim("orders"));
    grant(&etcd, &claim("other")).await;
    late.proxy.set(Traffic::SwallowAnswers);
    let (attempt, created) = tokio::join!(etcd.acquire(&waits, FOR_EVER), async {
        let (_, created) = eventually(async || queue(&late.cluster, "orders").await.pop()).await;
        late.proxy.drop_connections();
        late.proxy.set(Traffic::Forward);
        created
    });
    let Ok(AcquireOutcome::Granted(granted)) = attempt else { panic!("{attempt:?}") };
    assert_eq!(granted.fence, Fence::new(created.unsigned_abs()));
}
