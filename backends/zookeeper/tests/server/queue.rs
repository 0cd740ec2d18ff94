use lockwright_core::{
    BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, Event, Reason, ReleaseMode,
    RenewalOutcome, Wait,
};
use lockwright_zookeeper::ZooKeeper;

use crate::common::{
    FOR_EVER, TTL, busy, claim, claim_for, connect, events, eventually, fails, grant, granted_soon,
    name, next, node_of, one_server, raw, released, renew, server_and_client, server_and_proxy,
};
use crate::liveness::waiter_gets_an_error;

#[tokio::test]
async fn a_hold_is_a_node_as_curator_has_it_and_its_fence_is_its_transaction() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let held = claim("a/b");
    let fence = grant(&zookeeper, &held).await.fence;
    let nodes = raw.list_children("/lockwright/a%2Fb").await.unwrap();
    assert_eq!(nodes, [format!("{}0000000000", node_of(&held))]);
    let path = format!("/lockwright/a%2Fb/{}", nodes[0]);
    let (data, stat) = raw.get_data(&path).await.unwrap();
    assert_eq!(fence.get(), stat.czxid.unsigned_abs());
    assert_ne!(stat.ephemeral_owner, 0);
    let data = String::from_utf8(data).unwrap();
    assert!(
        data.contains(&held.token.to_string()) && data.contains("\"label\":\"test\""),
        "{data}"
    );
}

#[tokio::test]
async fn removed_hold_is_lost_and_removed_waiter_queues_again() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let (held, waiting) = (claim("x"), claim("x"));
    let fence = grant(&zookeeper, &held).await.fence;
    assert!(busy(&zookeeper, &waiting, FOR_EVER).await.queued);
    for node in raw.list_children("/lockwright/x").await.unwrap() {
        raw.delete(&format!("/lockwright/x/{node}"), None).await.unwrap();
    }
    assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::NotHeld(Reason::Gone));
    let granted = granted_soon(&zookeeper, &waiting, FOR_EVER).await;
    assert!(granted.fence > fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_gets_an_error_from_a_silent_server() {
    waiter_gets_an_error(TTL, TTL * 3, "session ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_during_a_session_end_reports_why_there_is_no_session() {
    let mut server = one_server();
    // With `connect`'s longer timeouts, the claim would leave the queue before the session ends,
    // and the acquire would return another error.
    let zookeeper = ZooKeeper::connect(&server.url()).await.unwrap();
    let [held, waits] = [(); 2].map(|()| claim_for("orders", TTL * 2));
    grant(&zookeeper, &held).await;
    busy(&zookeeper, &waits, FOR_EVER).await;
    server.members[0].kill();
    eventually(|| async {
        let told = zookeeper.acquire(&waits, FOR_EVER).await.unwrap_err();
        assert_eq!(told.lost_reason(), None, "{told}");
        let told = told.to_string();
        assert!(!told.contains("session ended"), "{told}");
        told.contains("refuses connections").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_that_was_freed_before_its_session_ended_gets_broken() {
    let (server, proxy, url) = server_and_proxy();
    let (operator, zookeeper) = (connect(&server.url()).await, connect(&url).await);
    let (held, freed, other) = (claim_for("x", TTL * 2), claim("x"), claim("other"));
    grant(&operator, &held).await;
    busy(&zookeeper, &freed, FOR_EVER).await;
    let mut told = events(&zookeeper);
    released(&operator, &held, ReleaseMode::Plain).await;
    assert_eq!(next(&mut told).await, Event::Wake(name("x")));
    let seen = BreakTarget::Token(freed.token);
    operator.break_lock(&freed.name, seen, BreakMode::Now, "me", "why").await.unwrap();
    // The operator is granted `other` once its holder's session has ended.
    grant(&zookeeper, &other).await;
    proxy.cut();
    granted_soon(&operator, &claim_for("other", TTL * 2), Wait::No).await;
    proxy.mend();
    while next(&mut told).await != Event::Wake(name("x")) {}
    for _ in 0..2 {
        fails(zookeeper.acquire(&freed, FOR_EVER).await, ErrorKind::Lost(Reason::Broken));
    }
    grant(&operator, &claim("x")).await;
}

/// The lock's node contains another program's data instead of notes.
#[tokio::test]
async fn hold_is_freed_at_once_if_no_note_can_be_left() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let claim = claim("x");
    grant(&zookeeper, &claim).await;
    raw.set_data("/lockwright/x", b"theirs", None).await.unwrap();
    let broken =
        zookeeper.break_lock(&claim.name, BreakTarget::Any, BreakMode::Now, "me", "why").await;
    assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    assert_eq!(raw.get_data("/lockwright/x").await.unwrap().0, b"theirs");
    assert_eq!(renew(&zookeeper, &claim).await, RenewalOutcome::NotHeld(Reason::Gone));
}
