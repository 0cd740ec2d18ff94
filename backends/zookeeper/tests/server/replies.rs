use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Claim, DistributedLock, ErrorKind, Reason, ReleaseMode,
    ReleaseOutcome, RenewalMode, Token, Wait,
};
use lockwright_testbed as testbed;
use lockwright_testbed::proxy::{Proxy, Traffic};
use lockwright_zookeeper::{Config, ZooKeeper};
use zookeeper_client as zk;

use crate::common::{
    FOR_EVER, LIMIT, busy, claim, claim_for, connect, eventually, fails, grant, granted_soon,
    node_of, raw, released,
};

const LONG: Duration = Duration::from_secs(30);

async fn harmed() -> (testbed::ZooKeeper, Proxy, ZooKeeper) {
    harmed_with(testbed::ZooKeeper::options().members(1)).await
}

async fn harmed_with(
    options: testbed::zookeeper::Options,
) -> (testbed::ZooKeeper, Proxy, ZooKeeper) {
    let server = options.start().unwrap();
    let proxy = Proxy::start(server.members[0].address()).unwrap();
    let config = Config::new(&server.url_through([proxy.port()])).unwrap();
    let config = config.response_timeout(Duration::from_secs(1)).connect_timeout(LIMIT);
    let zookeeper = config.connect().await.unwrap();
    (server, proxy, zookeeper)
}

async fn nodes(raw: &zookeeper_client::Client, claim: &Claim) -> Vec<String> {
    let mut nodes = raw.list_children("/lockwright/x").await.unwrap_or_default();
    nodes.retain(|node| node.starts_with(&node_of(claim)));
    nodes
}

async fn lose_the_reply(
    proxy: &Proxy,
    zookeeper: &ZooKeeper,
    raw: &zookeeper_client::Client,
    claim: &Claim,
) {
    // This creates the session and the parent node, so that later only the claim's node is missing.
    grant_and_release(zookeeper, claim).await;
    proxy.set(Traffic::SwallowAnswers);
    fails(zookeeper.acquire(claim, FOR_EVER).await, ErrorKind::Indeterminate);
    eventually(|| async { (nodes(raw, claim).await.len() == 1).then_some(()) }).await;
    proxy.set(Traffic::Forward);
    proxy.drop_connections();
}

async fn grant_and_release(zookeeper: &ZooKeeper, claim: &Claim) {
    let first = Claim { token: Token::random(), ..claim.clone() };
    grant(zookeeper, &first).await;
    zookeeper.release(&first, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_reply_was_lost_is_the_hold_when_asked_again() {
    let (server, proxy, zookeeper) = harmed().await;
    let raw = raw(&server.url()).await;
    let claim = claim_for("x", LONG);
    lose_the_reply(&proxy, &zookeeper, &raw, &claim).await;
    // The claim must use its earlier node: a wait for that node would never end.
    let granted = granted_soon(&zookeeper, &claim, FOR_EVER).await;
    let nodes = nodes(&raw, &claim).await;
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let stat = raw.check_stat(&format!("/lockwright/x/{}", nodes[0])).await.unwrap().unwrap();
    assert_eq!(granted.fence.get(), stat.czxid.unsigned_abs());
    released(&zookeeper, &claim, ReleaseMode::Plain).await;
}

/// An operator breaks the hold before the holder's client gets the response.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_reply_was_lost_and_that_was_broken_is_not_granted() {
    let (server, proxy, zookeeper) = harmed().await;
    let (raw, other) = (raw(&server.url()).await, connect(&server.url()).await);
    for how in [BreakMode::RunOut, BreakMode::Now] {
        let (claim, next) = (claim_for("x", LONG), claim_for("x", LONG));
        lose_the_reply(&proxy, &zookeeper, &raw, &claim).await;
        let seen = BreakTarget::Token(claim.token);
        let broken = other.break_lock(&claim.name, seen, how, "me", "why").await.unwrap();
        assert_ne!(broken, Broken::NotHeld);
        let told = eventually(|| async {
            match zookeeper.acquire(&claim, FOR_EVER).await {
                Err(error) if error.is_transient() => None,
                answer => Some(answer),
            }
        });
        let told = told.await.expect_err("it is broken");
        assert_eq!(told.kind(), ErrorKind::Lost(Reason::Broken), "{told}");
        // The claim was never granted, so its node is removed at once.
        grant(&other, &next).await;
        fails(zookeeper.acquire(&claim, FOR_EVER).await, ErrorKind::Lost(Reason::Broken));
        released(&other, &next, ReleaseMode::Plain).await;
    }
}

/// The client library sends the request after the caller has given up.
#[tokio::test(flavor = "multi_thread")]
async fn late_request_is_reconciled() {
    let (server, proxy, zookeeper) = harmed().await;
    let raw = raw(&server.url()).await;
    let claim = claim_for("x", LONG);
    grant_and_release(&zookeeper, &claim).await;
    proxy.set(Traffic::Hold);
    fails(zookeeper.acquire(&claim, FOR_EVER).await, ErrorKind::Indeterminate);
    assert!(nodes(&raw, &claim).await.is_empty(), "it is still on its way");
    let mut releases = 0;
    let (ended, ()) = tokio::join!(
        eventually(|| {
            releases += 1;
            async { zookeeper.release(&claim, ReleaseMode::Reconcile).await.ok() }
        }),
        async { proxy.set(Traffic::Forward) }
    );
    // A release that timed out may have removed the node before the release was repeated.
    assert!(
        ended == ReleaseOutcome::Released || releases > 1,
        "late: the request was lost, so there was nothing to reconcile"
    );
    assert!(nodes(&raw, &claim).await.is_empty());
    fails(zookeeper.acquire(&claim, Wait::No).await, ErrorKind::Lost(Reason::Gone));
}

/// The future of the acquire is dropped, and no client releases the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_ends_by_itself() {
    let (server, proxy, zookeeper) = harmed().await;
    let raw = raw(&server.url()).await;
    let claim = claim("x");
    grant_and_release(&zookeeper, &claim).await;
    proxy.set(Traffic::Hold);
    let asking = zookeeper.acquire(&claim, FOR_EVER);
    assert!(tokio::time::timeout(Duration::from_millis(100), asking).await.is_err());
    proxy.set(Traffic::Forward);
    eventually(|| async { (nodes(&raw, &claim).await.len() == 1).then_some(()) }).await;
    eventually(|| async { nodes(&raw, &claim).await.is_empty().then_some(()) }).await;
    grant(&connect(&server.url()).await, &crate::common::claim("x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_acquire_of_a_claim_in_removal_is_rejected() {
    // With this long tick, the session outlives the claim by some seconds.
    let options = testbed::ZooKeeper::options().members(1).tick(Duration::from_secs(2));
    let (server, proxy, zookeeper) = harmed_with(options).await;
    let other = connect(&server.url()).await;
    // A claim with a shorter TTL becomes overdue after two slow polls, instead of after its TTL.
    let mut claim = claim_for("x", Duration::from_secs(21));
    claim.renewal_mode = RenewalMode::Off;
    grant_and_release(&zookeeper, &claim).await;
    proxy.set(Traffic::SwallowAll);
    fails(zookeeper.acquire(&claim, FOR_EVER).await, ErrorKind::Indeterminate);
    // The claim becomes overdue, but the proxy swallows the removal.
    tokio::time::sleep(claim.ttl + Duration::from_secs(1)).await;
    let expired = ErrorKind::Lost(Reason::Expired);
    let again = zookeeper.acquire(&claim, FOR_EVER).await.unwrap_err();
    assert_eq!(again.kind(), expired, "{again}");
    proxy.set(Traffic::Forward);
    proxy.drop_connections();
    granted_soon(&other, &claim_for("x", LONG), Wait::No).await;
    let again = zookeeper.acquire(&claim, FOR_EVER).await.unwrap_err();
    assert_eq!(again.kind(), expired, "{again}");
}

/// After an error other than `Indeterminate`, no client would release the queued claim.
#[tokio::test(flavor = "multi_thread")]
async fn error_with_an_existing_node_is_indeterminate() {
    let (server, _proxy, zookeeper) = harmed().await;
    let raw = raw(&server.url()).await;
    let (held, waiting) = (claim_for("x", LONG), claim_for("x", LONG));
    grant(&zookeeper, &held).await;
    busy(&zookeeper, &waiting, FOR_EVER).await;
    let path = format!("/lockwright/x/{}", nodes(&raw, &waiting).await[0]);
    let acls = [zk::Acl::new(zk::Permission::WRITE, zk::AuthId::anyone())];
    raw.set_acl(&path, &acls, None).await.unwrap();
    fails(zookeeper.acquire(&waiting, FOR_EVER).await, ErrorKind::Indeterminate);
    released(&zookeeper, &waiting, ReleaseMode::Reconcile).await;
}
