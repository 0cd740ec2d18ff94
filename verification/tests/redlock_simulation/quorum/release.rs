use std::time::Duration;

use lockwright_core::{DistributedLock, ErrorKind, ReleaseMode, ReleaseOutcome, Wait};
use tokio::time::{Instant, sleep};

use super::common::{
    LARGEST_TTL, NODE_TIMEOUT, TTL, busy, checked_five, claim, fails, five_with_hold, grant,
    released,
};
use super::test_node::Fate;

#[tokio::test(start_paused = true)]
async fn a_quorum_of_answers_is_an_answer() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].fate(Fate::Unanswered);
    five.nodes[1].fate(Fate::Down);
    let begun = Instant::now();
    released(&five.redlock, &held, ReleaseMode::Plain).await;
    assert!(begun.elapsed() < NODE_TIMEOUT, "{:?}", begun.elapsed());
    let again = five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(again, ReleaseOutcome::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn too_few_answers_are_none() {
    let (five, held) = five_with_hold().await;
    five.fate(0..3, Fate::Down);
    let error =
        fails(five.redlock.release(&held, ReleaseMode::Plain).await, ErrorKind::Indeterminate);
    for node in ["node:0", "node:1", "node:2"] {
        assert!(error.to_string().contains(node), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_is_owed_its_release() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].fate(Fate::Down);
    five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(five.holders(&held), 1);
    five.nodes[0].fate(Fate::Answered);
    let begun = Instant::now();
    five.nothing_is_left_of(&held).await;
    assert!(begun.elapsed() < TTL / 2, "it ran out by itself: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn owed_releases_end() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].fate(Fate::Down);
    five.redlock.release(&held, ReleaseMode::Reconcile).await.unwrap();
    sleep(LARGEST_TTL / 2).await;
    let asked = five.nodes[0].asked("release");
    sleep(LARGEST_TTL).await;
    assert!(five.nodes[0].asked("release") > asked, "it was given up at once");
    let asked = five.nodes[0].asked("release");
    sleep(LARGEST_TTL).await;
    assert_eq!(five.nodes[0].asked("release"), asked);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_still_on_its_way_meets_a_tombstone() {
    let five = checked_five().await;
    let held = claim("x");
    five.nodes[0].fate(Fate::Late(Duration::from_millis(500)));
    grant(&five.redlock, &held).await;
    five.nodes[0].fate(Fate::Answered);
    // `Plain` leaves no tombstones, except on node 0, which hasn't replied to the claim.
    five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&held), 0, "it came late, and holds");
    let tombstones = |at: usize| five.nodes[at].state().server.data.tombstones.len();
    assert_eq!((tombstones(0), tombstones(1)), (1, 0), "one is due where it was in doubt");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_owed_a_tombstone_gets_no_vote_there() {
    // A pending release to node 0 would revoke a new vote there.
    let five = checked_five().await;
    let waiting = claim("x");
    five.nodes[0].state().releases = Fate::Down;
    five.at(2..5).for_each(|node| node.hold(&claim("x")));
    busy(&five.redlock, &waiting, Wait::No).await;
    assert_eq!(five.holders(&waiting), 1, "the release was not answered");
    five.clear(2..5);
    let asked = five.nodes[0].asked("attempt");
    grant(&five.redlock, &waiting).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(five.nodes[0].asked("attempt"), asked, "it was asked for a vote");
    five.nodes[0].state().releases = Fate::Answered;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(five.holders(&waiting), 4);
    assert!(five.nodes[0].state().server.data.tombstones.contains_key(&waiting.token));
}

#[tokio::test(start_paused = true)]
async fn hold_of_a_minority_was_already_lost() {
    for lost in [[0, 1, 2], [2, 3, 4], [0, 2, 4]] {
        let (five, held) = five_with_hold().await;
        for at in lost {
            five.nodes[at].state().server.data.holds.clear();
        }
        let ended = five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
        assert_eq!(ended, ReleaseOutcome::NotHeld, "{lost:?}");
    }
    // The replies `NotHeld` of a minority don't decide, even if they come first.
    let (five, held) = five_with_hold().await;
    five.clear(0..2);
    released(&five.redlock, &held, ReleaseMode::Plain).await;
}
