//! Tests that a renewal counts only if the client proves that the lease is alive.

use std::time::Duration;

use lockwright_core::{DistributedLock, Fence, Renew, RenewalOutcome};
use lockwright_testbed::etcd::{Member, Version};
use lockwright_testbed::proxy::{Proxy, Traffic};
use tokio::time::{sleep, timeout};

use super::{VERSIONS, cut_others, elected, start};
use crate::common::{claim_for, eventually, grant, stubborn};

/// How long a request to a paused member may take.
const STANDSTILL: Duration = Duration::from_secs(12);

/// For a second after its thaw, a replaced leader acts as leader. It answers keep-alives without
/// the other members, and so doesn't renew the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_replaced_proves_nothing() {
    for version in VERSIONS {
        replaced_leader_proves_nothing(version).await;
    }
}

async fn replaced_leader_proves_nothing(version: Version) {
    let cluster = start(version);
    let old = cluster.leader().unwrap();
    let proxy = Proxy::start(cluster.members[old].address()).unwrap();
    let etcd = stubborn(&cluster.url_through([proxy.port()]), STANDSTILL).await;
    let claim = claim_for("orders", Duration::from_secs(30));
    grant(&etcd, &claim).await;
    let endpoint = format!("http://{}", proxy.address());
    let client = etcd_client::Client::connect([endpoint], None).await.unwrap();
    let lease = client.lease_client().grant(30, None).await.unwrap().id();
    let (mut keeper, mut answers) = client.lease_client().keep_alive(lease).await.unwrap();

    cluster.members[old].freeze();
    cluster.isolate(old);
    elected(&cluster, old);
    let before = proxy.forwarded_requests();
    keeper.keep_alive().await.unwrap();
    wait_for_forwarded_request(&proxy, before).await;
    let before = proxy.forwarded_requests();
    let renewing = tokio::spawn(async move {
        let renewed = etcd.renew(&[Renew::of(&claim)]).await;
        (renewed, etcd)
    });
    wait_for_forwarded_request(&proxy, before).await;
    cluster.members[old].thaw();
    let answer = timeout(STANDSTILL, answers.message()).await;
    let is_answered = matches!(answer, Ok(Ok(Some(answer))) if answer.ttl() > 0);
    if version == Version::Debian {
        assert!(is_answered, "a keep-alive alone proves it: this shows nothing");
    }
    let (renewed, _etcd) = renewing.await.unwrap();
    match renewed {
        Err(_) => {}
        Ok(renewals) => assert_eq!(renewals[0].outcome, RenewalOutcome::Indeterminate),
    }
}

/// Waits until the proxy has forwarded more than `before` chunks of requests.
async fn wait_for_forwarded_request(proxy: &Proxy, before: usize) {
    eventually(async || (proxy.forwarded_requests() > before).then_some(())).await;
}

/// A replaced leader answers a keep-alive, but doesn't renew the lease. If another member then
/// answers the read, the client must repeat the keep-alive there.
#[tokio::test(flavor = "multi_thread")]
async fn a_keep_alive_here_and_a_look_there_prove_nothing() {
    // The TTL is so long that no background task renews the hold.
    let ttl = Duration::from_secs(240);
    let cluster = start(Version::Debian);
    let old = cluster.leader().unwrap();
    let (proxies, url) = cut_others(&cluster, old);
    // The client waits for the old leader for a third of the response timeout: longer than the
    // freeze.
    let etcd = stubborn(&url, STANDSTILL * 6).await;
    let claim = claim_for("orders", ttl);
    let granted = grant(&etcd, &claim).await;

    cluster.members[old].freeze();
    cluster.isolate(old);
    let new = elected(&cluster, old);
    let renewing = tokio::spawn(async move {
        let renewed = etcd.renew(&[Renew::of(&claim)]).await;
        (renewed, etcd)
    });
    // During this time, nothing renews the lease on the new leader.
    let counts = Duration::from_secs(10);
    sleep(counts).await;
    cluster.members[old].thaw();
    // Mend the proxies only now, because the client leaves a frozen member once another answers.
    proxies.iter().for_each(Proxy::mend);
    let (renewed, _etcd) = renewing.await.unwrap();
    if let Ok(renewals) = renewed
        && let RenewalOutcome::Renewed { .. } = renewals[0].outcome
    {
        let left = left_of_the_hold(&cluster.members[new], granted.fence);
        assert!(left > ttl - counts / 2, "it was not renewed where it counts: {left:?}");
    }
}

/// A replaced leader answers the keep-alive, then receives the election's result, then answers the
/// read. So the read is in a later term, and doesn't prove the keep-alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_keep_alive_in_one_term_and_a_look_in_the_next_prove_nothing() {
    let ttl = Duration::from_secs(400);
    let cluster = start(Version::Debian);
    let old = cluster.leader().unwrap();
    let proxy = Proxy::start(cluster.members[old].address()).unwrap();
    let etcd = stubborn(&cluster.url_through([proxy.port()]), STANDSTILL * 6).await;
    let claim = claim_for("orders", ttl);
    let granted = grant(&etcd, &claim).await;
    // Open the stream of keep-alives now, so that a later keep-alive takes one message each way.
    etcd.renew(&[Renew::of(&claim)]).await.unwrap();
    let endpoint = cluster.members[old].endpoint();
    let client = etcd_client::Client::connect([endpoint], None).await.unwrap();
    let lease = client.lease_client().grant(400, None).await.unwrap().id();
    let (mut keeper, mut answers) = client.lease_client().keep_alive(lease).await.unwrap();

    cluster.members[old].freeze();
    cluster.isolate(old);
    let new = elected(&cluster, old);
    // With this delay, the old leader receives the election's result between a renewal's keep-alive
    // and its read.
    proxy.set(Traffic::Delay(Duration::from_secs(2)));
    keeper.keep_alive().await.unwrap();
    let renewing = tokio::spawn(async move {
        let renewed = etcd.renew(&[Renew::of(&claim)]).await;
        (renewed, etcd)
    });
    let counts = Duration::from_secs(30);
    sleep(counts).await;
    cluster.members[old].thaw();
    let answer = timeout(STANDSTILL, answers.message()).await;
    let is_answered = matches!(answer, Ok(Ok(Some(answer))) if answer.ttl() > 0);
    assert!(is_answered, "a leader that was replaced answers no keep-alive: this shows nothing");
    cluster.heal(old);
    let (renewed, _etcd) = renewing.await.unwrap();
    let outcome = &renewed.unwrap()[0].outcome;
    assert!(matches!(outcome, RenewalOutcome::Renewed { .. }), "{outcome:?}");
    let left = left_of_the_hold(&cluster.members[new], granted.fence);
    assert!(left > ttl - counts / 2, "it was not renewed where it counts: {left:?}");
}

fn left_of_the_hold(member: &Member, fence: Fence) -> Duration {
    let keys = member.ctl(&["get", "lockwright/orders/", "--prefix", "-w=fields"]).unwrap();
    assert!(keys.contains(&format!("\"CreateRevision\" : {fence}")), "{keys}");
    let lease = keys.lines().find_map(|line| line.strip_prefix("\"Lease\" : ")).unwrap();
    let lease = format!("{:x}", lease.parse::<i64>().unwrap());
    let told = member.ctl(&["lease", "timetolive", &lease]).unwrap();
    let left = told.split("remaining(").nth(1).and_then(|it| it.split('s').next()).unwrap();
    Duration::from_secs(left.parse().unwrap())
}
