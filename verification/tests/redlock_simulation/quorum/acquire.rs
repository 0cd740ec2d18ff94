use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode, Wait};
use lockwright_redlock::NodeErrors;
use tokio::time::Instant;

use super::common::{
    LARGEST_TTL, NODE_TIMEOUT, busy, checked_five, claim, fails, fails_with, five, grant,
    wait_until,
};
use super::test_node::Fate;

async fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> bool {
    let mut future = Pin::new(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_enough_and_less_is_not() {
    let five = five();
    five.fate([0, 1], Fate::Down);
    let first = claim("x");
    grant(&five.redlock, &first).await;
    assert_eq!(five.holders(&first), 3);
    five.nodes[2].fate(Fate::Down);
    let error = five.redlock.try_acquire(&claim("y")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    for node in ["node:0", "node:1", "node:2"] {
        assert!(text.contains(&format!("{node}: no server answers there")), "{text}");
    }
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.downcast_ref::<NodeErrors>().unwrap().iter().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_refused_with_its_holder() {
    let five = five();
    let first = claim("x");
    let granted = grant(&five.redlock, &first).await;
    let busy = busy(&five.another(), &claim("x"), Wait::No).await;
    let holder = busy.holder.unwrap();
    assert_eq!((holder.token, holder.fence), (Some(first.token), Some(granted.fence)));
    assert!(busy.retry_after.unwrap() > first.ttl / 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_costs_no_more_than_its_time_out() {
    let five = checked_five().await;
    five.fate([0, 1], Fate::Unanswered);
    let begun = Instant::now();
    grant(&five.redlock, &claim("x")).await;
    assert!(begun.elapsed() < NODE_TIMEOUT, "they were waited for: {:?}", begun.elapsed());
    five.nodes[2].fate(Fate::Unanswered);
    let begun = Instant::now();
    fails(five.redlock.try_acquire(&claim("y")).await, ErrorKind::Indeterminate);
    let took = begun.elapsed();
    assert!(took <= 2 * NODE_TIMEOUT + Duration::from_millis(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_waited_for_once() {
    let five = checked_five().await;
    five.fate([0, 1], Fate::Unanswered);
    five.nodes[2].hold(&claim("x"));
    let took = async || {
        let begun = Instant::now();
        let busy = busy(&five.redlock, &claim("x"), Wait::No).await;
        assert!(busy.retry_after.is_some());
        begun.elapsed()
    };
    let (first, second) = (took().await, took().await);
    assert!(first >= NODE_TIMEOUT && second < NODE_TIMEOUT / 2, "{first:?}, then {second:?}");
    five.nodes[3].fate(Fate::Down);
    let error = five.redlock.try_acquire(&claim("x")).await.unwrap_err().to_string();
    assert!(error.contains("node:0: it did not answer recent requests"), "{error}");
    // Two nodes aren't a quorum, so the client waits for the three silent nodes.
    five.nodes[2].fate(Fate::Unanswered);
    five.nodes[3].fate(Fate::Answered);
    five.redlock.try_acquire(&claim("x")).await.unwrap_err();
    five.redlock.try_acquire(&claim("x")).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_not_busy_when_the_requests_are_late() {
    let five = five();
    five.fate(0..5, Fate::Late(NODE_TIMEOUT / 2));
    let late = claim("x");
    let mut acquiring = five.redlock.acquire(&late, Wait::No);
    assert!(!poll_once(&mut acquiring).await, "it looks at the nodes first");
    // The machine stalls before any request for a vote is sent.
    tokio::time::advance(NODE_TIMEOUT * 2).await;
    five.fate(0..5, Fate::Answered);
    let says = "node:4: the time for this round ended before the request was sent";
    fails_with(acquiring.await, ErrorKind::Unavailable, says);
    assert!(five.nodes.iter().all(|node| node.asked("attempt") == 0));
    grant(&five.redlock, &claim("x")).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_speaks_again_is_waited_for_again() {
    let five = checked_five().await;
    five.fate([0, 1], Fate::Unanswered);
    five.nodes[2].hold(&claim("x"));
    busy(&five.redlock, &claim("x"), Wait::No).await;
    five.fate(0..5, Fate::Answered);
    grant(&five.redlock, &claim("y")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The nodes that were silent now reply late, and their votes are needed.
    five.fate([0, 1], Fate::Late(NODE_TIMEOUT / 2));
    five.fate([3, 4], Fate::Down);
    grant(&five.redlock, &claim("z")).await;
}

#[tokio::test(start_paused = true)]
async fn the_highest_fence_is_noted_by_a_quorum() {
    let five = five();
    let held = claim("x");
    five.count(&held, [5_000, 6_000, 7_000, 10, 10]);
    let granted = grant(&five.redlock, &held).await;
    assert_eq!(granted.fence.get(), 7_001);
    wait_until("all have noted it", || {
        five.nodes.iter().all(|node| node.state().server.data.holds[&held.name].fence == 7_001)
    })
    .await;
    assert_eq!(grant(&five.redlock, &held).await.fence.get(), 7_001);
    five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(grant(&five.another(), &claim("x")).await.fence.get(), 7_002);
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_for_its_fence_nothing_is_granted() {
    let five = five();
    let held = claim("x");
    five.count(&held, [5_000, 6_000, 7_000, 8_000, 9_000]);
    five.at(0..3).for_each(|node| node.state().raises = Fate::Unanswered);
    let error = five.redlock.try_acquire(&held).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    five.nothing_is_left_of(&held).await;
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_was_not_answered_is_given_back_when_the_node_comes_back() {
    let five = checked_five().await;
    five.fate(0..3, Fate::Down);
    five.nodes[3].fate(Fate::Unanswered);
    let lost = claim("x");
    five.redlock.try_acquire(&lost).await.unwrap_err();
    assert_eq!(five.holders(&lost), 1, "the silent one holds it");
    five.nodes[3].fate(Fate::Answered);
    five.nothing_is_left_of(&lost).await;
    assert!(five.nodes[3].state().server.data.tombstones.contains_key(&lost.token));
}

#[tokio::test]
async fn late_vote_is_given_back_after_the_callers_runtime_ended() {
    let five = checked_five().await;
    let late = claim("x");
    five.fate(0..3, Fate::Down);
    five.nodes[3].state().attempts = Fate::Late(NODE_TIMEOUT * 4);
    let asked = five.nodes[3].asked("release");
    let (redlock, wanted) = (five.redlock, late.clone());
    let caller = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(redlock.try_acquire(&wanted)).unwrap_err();
        redlock
    });
    let _redlock = caller.await.unwrap();
    let released = wait_until("it is released", || five.nodes[3].asked("release") > asked);
    tokio::time::timeout(Duration::from_secs(10), released).await.unwrap();
    assert!(five.nodes[3].state().server.data.tombstones.contains_key(&late.token));
}

#[tokio::test(start_paused = true)]
async fn a_vote_whose_answer_was_lost_is_given_back() {
    let five = checked_five().await;
    let lost = claim("x");
    five.at(0..3).for_each(|node| node.state().attempts = Fate::Broken);
    let error = five.redlock.try_acquire(&lost).await.unwrap_err();
    // The nodes confirmed the releases, so the error isn't `Indeterminate`.
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(five.holders(&lost), 0);
    // The released token's tombstone prevents a grant.
    five.at(0..3).for_each(|node| node.state().attempts = Fate::Answered);
    let ended = five.redlock.try_acquire(&lost).await.unwrap_err();
    assert_eq!(ended.lost_reason(), Some(lockwright_core::Reason::Gone), "{ended}");
    grant(&five.redlock, &claim("x")).await;
}

#[tokio::test(start_paused = true)]
async fn inherited_token_keeps_its_request() {
    let five = checked_five().await;
    five.fate(0..5, Fate::Late(NODE_TIMEOUT / 2));
    let inherited = claim("x");
    {
        let mut acquire = five.redlock.acquire(&inherited, Wait::No);
        assert!(!poll_once(&mut acquire).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    five.fate(0..5, Fate::Answered);
    let fence = grant(&five.redlock, &inherited).await.fence;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&inherited), 5, "nothing of the dropped round takes it away");
    assert_eq!(grant(&five.redlock, &inherited).await.fence, fence);
    assert!(five.nodes.iter().all(|node| node.asked("release") == 0), "it was taken over");
}

#[tokio::test(start_paused = true)]
async fn late_vote_records_the_fence() {
    let five = checked_five().await;
    let held = claim("x");
    five.nodes[4].state().server.data.counters.insert(held.name.clone(), 9_000);
    five.nodes[4].fate(Fate::Late(NODE_TIMEOUT * 2));
    let fence = grant(&five.redlock, &held).await.fence;
    assert!(fence.get() < 9_000);
    wait_until("it votes", || five.holders(&held) == 5).await;
    wait_until("it has noted the fence", || {
        five.nodes[4].state().server.data.holds[&held.name].fence == fence.get()
    })
    .await;
    assert_eq!(
        five.nodes[4].state().server.data.counters[&held.name],
        9_001,
        "and counts on from its own"
    );
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_stays_blocked_after_a_later_vote_is_returned() {
    let five = checked_five().await;
    let waiting = claim("x");
    five.at(1..5).for_each(|node| node.hold(&claim("x")));
    // The reply to the request is lost, and the caller drops the request.
    five.nodes[0].state().attempts = Fate::Broken;
    poll_once(&mut five.redlock.acquire(&waiting, Wait::No)).await;
    wait_until("it was asked", || five.nodes[0].asked("attempt") == 2).await;
    five.nodes[0].state().attempts = Fate::Answered;
    tokio::time::sleep(Duration::from_millis(1)).await;
    busy(&five.redlock, &waiting, Wait::No).await;
    assert_eq!(five.holders(&waiting), 0);
    assert!(five.nodes[0].state().server.data.tombstones.contains_key(&waiting.token));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_never_counts_a_vote_that_is_being_given_back() {
    // The first round fails, and two nodes that voted are slow to release.
    let five = five();
    let other = claim("x");
    grant(&five.redlock, &other).await;
    for node in &five.nodes[..2] {
        node.state().server.data.holds.clear();
        node.state().releases = Fate::Late(NODE_TIMEOUT * 4);
    }
    let (client, waiting) = (five.another(), claim("x"));
    busy(&client, &waiting, Wait::No).await;
    five.clear(2..5);
    five.nodes[4].fate(Fate::Down);
    let answer = client.acquire(&waiting, Wait::No).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    if let Ok(lockwright_core::AcquireOutcome::Granted(_)) = answer {
        assert!(five.holders(&waiting) >= 3, "it was taken away again");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    five.nodes[4].fate(Fate::Answered);
    grant(&client, &waiting).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&waiting), 5);
}

#[tokio::test(start_paused = true)]
async fn split_votes_end() {
    let five = five();
    let (left, right) = (claim("x"), claim("x"));
    five.nodes[4].fate(Fate::Down);
    let clients = [five.another(), five.another()];
    five.at([0, 1]).for_each(|node| node.hold(&left));
    five.at([2, 3]).for_each(|node| node.hold(&right));
    let busy = busy(&clients[0], &claim("x"), Wait::No).await;
    assert!(busy.holder.is_none(), "nobody holds it: {busy:?}");
    let soon = busy.retry_after.unwrap();
    assert!(soon <= NODE_TIMEOUT, "it is tried again soon: {soon:?}");
}

#[tokio::test(start_paused = true)]
async fn fences_have_an_end() {
    let five = five();
    let held = claim("x");
    five.count(&held, [(1 << 53) - 1; 5]);
    fails(five.redlock.try_acquire(&held).await, ErrorKind::Conflict);
    five.nothing_is_left_of(&held).await;
}

#[tokio::test(start_paused = true)]
async fn a_ttl_beyond_the_largest_is_refused() {
    let five = five();
    let mut long = claim("x");
    long.ttl = LARGEST_TTL + Duration::from_millis(1);
    fails(five.redlock.try_acquire(&long).await, ErrorKind::InvalidInput);
}

/// Until a node answers a token's release, however late, it gets no vote request for this token.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_owed_a_tombstone_has_no_part_however_long_that_takes() {
    let five = checked_five().await;
    let (other, waiting) = (claim("x"), claim("x"));
    five.nodes[4].state().attempts = Fate::Unanswered;
    five.nodes[4].state().releases = Fate::Late(LARGEST_TTL * 100);
    let begun = Instant::now();
    while begun.elapsed() < LARGEST_TTL * 3 {
        five.at(0..4).for_each(|node| node.hold(&other));
        busy(&five.redlock, &waiting, Wait::No).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // Now node 4's vote would complete a quorum, but the late release would revoke the vote.
    five.nodes[4].state().attempts = Fate::Answered;
    five.fate(0..2, Fate::Down);
    five.clear(2..5);
    let asked = five.redlock.acquire(&waiting, Wait::No).await;
    assert!(!matches!(asked, Ok(lockwright_core::AcquireOutcome::Granted(_))), "{asked:?}");
    grant(&five.redlock, &claim("x")).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_owes_the_answer_to_a_note_is_not_asked_again() {
    let five = five();
    let wanted = claim("x");
    for (node, counter) in five.nodes.iter().zip([5_000, 4_000, 3_000, 2_000, 1_000]) {
        node.state().server.data.counters.insert(wanted.name.clone(), counter);
        node.state().raises = Fate::Broken;
    }
    five.redlock.try_acquire(&wanted).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(5)).await;
    five.at(0..5).for_each(|node| node.state().raises = Fate::Answered);
    let _ = five.redlock.acquire(&wanted, Wait::No).await;
    for node in &five.nodes[1..] {
        assert_eq!(node.holder(&wanted.name), None, "its note may come yet");
    }
}
