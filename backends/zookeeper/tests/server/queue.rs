use lockwright_core::{BreakMode, BreakTarget, Broken, ErrorKind, Reason, RenewalOutcome};
use lockwright_core::{Busy, DistributedLock, Event, ReleaseMode, Wait};
use lockwright_zookeeper::ZooKeeper;

use crate::common::{
    FOR_EVER, TTL, busy, claim, claim_for, connect, ephemeral, events, eventually, fails, grant,
    granted_soon, name, next, node_of, one_server, persistent, raw, released, renew,
    server_and_client, server_and_proxy,
};
use crate::liveness::waiter_gets_an_error;

const CURATOR: &str = "/lockwright/x/_c_7b0a1f2e-1111-4222-8333-444455556666-lock-";

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

/// A child is in no queue if its name doesn't have the form of a claim's node.
#[tokio::test]
async fn node_outside_the_queue_blocks_no_claim() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    raw.mkdir("/lockwright/a", &persistent()).await.unwrap();
    for child in ["0", "b", "b-lock-", "0000000000", "x0000000000", "-lock-12"] {
        raw.create(&format!("/lockwright/a/{child}"), b"", &persistent()).await.unwrap();
    }
    let held = claim("a");
    grant(&zookeeper, &held).await;
    assert_eq!(zookeeper.inspect(&held.name).await.unwrap().waiters, Some(0));
    released(&zookeeper, &held, ReleaseMode::Plain).await;
}

#[tokio::test]
async fn waiter_watches_its_predecessor_and_only_the_next_is_woken() {
    let (server, holder) = server_and_client().await;
    let held = claim("x");
    grant(&holder, &held).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let zookeeper = connect(&server.url()).await;
        let (told, claim) = (events(&zookeeper), claim("x"));
        assert!(busy(&zookeeper, &claim, FOR_EVER).await.queued);
        assert!(busy(&zookeeper, &claim, FOR_EVER).await.queued);
        waiting.push((zookeeper, told, claim));
    }
    let watched = server.four_letter(0, "wchp").unwrap();
    let watched: Vec<&str> = watched.lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(watched.len(), 3, "{watched:?}");
    for ahead in [&held, &waiting[0].2, &waiting[1].2] {
        let node = node_of(ahead);
        assert!(watched.iter().any(|path| path.contains(&node)), "{watched:?}");
    }
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut waiting[0].1).await, Event::Wake(name("x")));
    grant(&waiting[0].0, &waiting[0].2).await;
    // The middle waiter gives up. The last waiter watches its new predecessor, and isn't granted.
    waiting[1].0.release(&waiting[1].2, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut waiting[2].1).await, Event::Wake(name("x")));
    assert!(busy(&waiting[2].0, &waiting[2].2, FOR_EVER).await.queued);
    assert!(waiting[1].1.try_recv().is_err(), "the next waiter was not woken");
    waiting[0].0.release(&waiting[0].2, ReleaseMode::Plain).await.unwrap();
    assert_eq!(next(&mut waiting[2].1).await, Event::Wake(name("x")));
    grant(&waiting[2].0, &waiting[2].2).await;
}

#[tokio::test]
async fn another_programs_node_is_a_holder_and_its_end_wakes() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    raw.mkdir("/lockwright/x", &persistent()).await.unwrap();
    let kazoo = "/lockwright/x/9a0b__lock__";
    for path in [CURATOR, kazoo] {
        let (_, sequence) = raw.create(path, b"10.0.0.1", &ephemeral()).await.unwrap();
        let mut told = events(&zookeeper);
        let claim = claim("x");
        assert_eq!(busy(&zookeeper, &claim, Wait::No).await, Busy::default());
        assert!(busy(&zookeeper, &claim, FOR_EVER).await.queued);
        let shown = zookeeper.inspect(&claim.name).await.unwrap();
        assert_eq!((shown.holders[0].token, shown.waiters), (None, Some(1)));
        let seen = BreakTarget::Any;
        let broken = zookeeper.break_lock(&claim.name, seen, BreakMode::RunOut, "me", "why").await;
        fails(broken, ErrorKind::Conflict);
        raw.delete(&format!("{path}{sequence}"), None).await.unwrap();
        assert_eq!(next(&mut told).await, Event::Wake(name("x")));
        grant(&zookeeper, &claim).await;
        zookeeper.release(&claim, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test]
async fn another_programs_hold_can_be_freed_at_once() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    raw.mkdir("/lockwright/x", &persistent()).await.unwrap();
    raw.create(CURATOR, b"", &ephemeral()).await.unwrap();
    let claim = claim("x");
    let broken = zookeeper
        .break_lock(&claim.name, BreakTarget::Any, BreakMode::Now, "me", "why")
        .await
        .unwrap();
    assert_eq!(broken, Broken::Freed(std::time::Duration::MAX), "it never detects the loss");
    grant(&zookeeper, &claim).await;
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
    // The waiter's place is gone, so it queues at the end.
    let granted = granted_soon(&zookeeper, &waiting, FOR_EVER).await;
    assert!(granted.fence > fence);
}

/// The servers remove empty queues. In a new queue, the sequence numbers start again at zero, but
/// fences still increase.
#[tokio::test]
async fn fences_grow_though_the_queue_itself_is_removed() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    let mut fence = None;
    for _ in 0..3 {
        let held = claim("x");
        let granted = grant(&zookeeper, &held).await.fence;
        assert!(Some(granted) > fence, "{granted} after {fence:?}");
        fence = Some(granted);
        zookeeper.release(&held, ReleaseMode::Plain).await.unwrap();
        raw.delete("/lockwright/x", None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_gets_an_error_from_a_silent_server() {
    waiter_gets_an_error(TTL, TTL * 3, "session ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_during_a_session_end_reports_why_there_is_no_session() {
    let mut server = one_server();
    // With the longer timeouts of `connect`, the claim would leave the queue before its session
    // ends, and get another error.
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
async fn holder_of_a_lock_broken_at_once_gets_broken() {
    let (_server, zookeeper) = server_and_client().await;
    let (held, next) = (claim("x"), claim("x"));
    grant(&zookeeper, &held).await;
    assert!(busy(&zookeeper, &next, FOR_EVER).await.queued);
    let seen = BreakTarget::Token(held.token);
    let broken = zookeeper.break_lock(&held.name, seen, BreakMode::Now, "me", "why").await.unwrap();
    assert!(matches!(broken, Broken::Freed(_)), "{broken:?}");
    granted_soon(&zookeeper, &next, FOR_EVER).await;
    assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::NotHeld(Reason::Broken));
    let broken =
        zookeeper.break_lock(&next.name, BreakTarget::Any, BreakMode::Now, "me", "why").await;
    assert!(matches!(broken, Ok(Broken::Freed(_))), "{broken:?}");
    assert_eq!(renew(&zookeeper, &next).await, RenewalOutcome::NotHeld(Reason::Broken));
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
    // This hold shows when the session ends.
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
