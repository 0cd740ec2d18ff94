use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Reason, ReleaseMode, Renew,
    RenewalOutcome, Result, Wait,
};
use lockwright_redlock::Redlock;
use tokio::time::{Instant, sleep};

use super::common::{
    NODE_TIMEOUT, TTL, busy, claim, fails, five, five_with_hold, grant, wait_until,
};
use super::test_node::Fate;
use crate::server::Restart;

async fn renew(redlock: &Redlock, claims: &[&Claim]) -> Result<Vec<RenewalOutcome>> {
    let holds: Vec<_> = claims.iter().map(|claim| Renew::of(claim)).collect();
    let renewals = redlock.renew(&holds).await?;
    Ok(renewals.into_iter().map(|renewal| renewal.outcome).collect())
}

const RENEWED: RenewalOutcome = RenewalOutcome::Renewed { valid: None };

#[tokio::test(start_paused = true)]
async fn a_quorum_renews() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].fate(Fate::Unanswered);
    five.nodes[1].fate(Fate::Down);
    for _ in 0..5 {
        sleep(TTL / 2).await;
        let begun = Instant::now();
        assert_eq!(renew(&five.redlock, &[&held]).await.unwrap(), [RENEWED]);
        assert!(begun.elapsed() < NODE_TIMEOUT, "{:?}", begun.elapsed());
    }
    // The silent node executes renewals. On the node that is down, the hold has expired.
    assert_eq!(five.holders(&held), 4);
}

#[tokio::test(start_paused = true)]
async fn each_hold_of_a_batch_has_its_own_answer() {
    let five = five();
    let (held, lost, unsure) = (claim("x"), claim("y"), claim("z"));
    for claim in [&held, &lost, &unsure] {
        grant(&five.redlock, claim).await;
        wait_until("all hold it", || five.holders(claim) == 5).await;
    }
    five.nodes[0].fate(Fate::Down);
    for node in &five.nodes[..4] {
        node.state().server.data.holds.remove(&lost.name);
    }
    for node in &five.nodes[..3] {
        node.state().server.data.holds.remove(&unsure.name);
    }
    let outcomes = renew(&five.redlock, &[&held, &lost, &unsure]).await.unwrap();
    let gone = RenewalOutcome::NotHeld(Reason::Gone);
    assert_eq!(outcomes, [RENEWED, gone, RenewalOutcome::Indeterminate]);
}

#[tokio::test(start_paused = true)]
async fn repair_copies_the_fence_of_the_quorum() {
    let five = five();
    let held = claim("x");
    let fence = grant(&five.redlock, &held).await.fence;
    wait_until("all hold it", || five.holders(&held) == 5).await;
    five.clear(0..2);
    five.nodes[0].state().server.data.counters.insert(held.name.clone(), 90_000);
    assert_eq!(renew(&five.redlock, &[&held]).await.unwrap(), [RENEWED]);
    wait_until("it is repaired", || five.holders(&held) == 5).await;
    let noted =
        |at: usize| five.nodes[at].state().server.data.holds[&held.name].fence == fence.get();
    wait_until("they have its fence", || noted(0) && noted(1)).await;
}

#[tokio::test(start_paused = true)]
async fn less_than_a_quorum_is_not_topped_up() {
    let (five, held) = five_with_hold().await;
    five.clear(0..3);
    let outcomes = renew(&five.redlock, &[&held]).await.unwrap();
    assert_eq!(outcomes, [RenewalOutcome::NotHeld(Reason::Gone)]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&held), 2);
    // The hold isn't copied to the other nodes while the two that have it are down.
    five.fate([4, 3], Fate::Down);
    let _ = renew(&five.redlock, &[&held]).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&held), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_topped_up_after_its_release() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].state().server.data.holds.clear();
    // Node 0, which lacks the hold, replies to the renewal after the release.
    five.nodes[0].fate(Fate::Late(Duration::from_millis(500)));
    assert_eq!(renew(&five.redlock, &[&held]).await.unwrap(), [RENEWED]);
    five.nodes[0].fate(Fate::Answered);
    five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(five.holders(&held), 0);
}

#[tokio::test(start_paused = true)]
async fn a_top_up_without_an_answer_leaves_nothing() {
    let (five, held) = five_with_hold().await;
    five.nodes[0].state().server.data.holds.clear();
    five.nodes[0].state().attempts = Fate::Late(Duration::from_secs(2));
    assert_eq!(renew(&five.redlock, &[&held]).await.unwrap(), [RENEWED]);
    wait_until("it is asked to hold it", || five.nodes[0].asked("attempt") == 2).await;
    five.redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(five.holders(&held), 0, "the repair came after the release");
}

#[tokio::test(start_paused = true)]
async fn silence_is_no_loss() {
    let (five, held) = five_with_hold().await;
    five.fate(0..3, Fate::Unanswered);
    let begun = Instant::now();
    fails(renew(&five.redlock, &[&held]).await, ErrorKind::Indeterminate);
    assert!(begun.elapsed() <= NODE_TIMEOUT + Duration::from_millis(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_broken_hold_is_reported_as_broken() {
    let (five, held) = five_with_hold().await;
    let seen = BreakTarget::Token(held.token);
    five.nodes[0].fate(Fate::Down);
    let another = five.another();
    let broken = another.break_lock(&held.name, seen, BreakMode::RunOut, "ada", "stuck").await;
    assert!(matches!(broken, Ok(lockwright_core::Broken::RunsOut(_))), "{broken:?}");
    five.nodes[0].fate(Fate::Answered);
    let outcomes = renew(&five.redlock, &[&held]).await.unwrap();
    assert_eq!(outcomes, [RenewalOutcome::NotHeld(Reason::Broken)]);
    // The node that missed the break must not revive the hold.
    sleep(Duration::from_secs(1)).await;
    let shown = another.inspect(&held.name).await.unwrap();
    assert_eq!(shown.holders[0].broken.as_deref(), Some("ada: stuck"));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_fails_takes_nothing_away() {
    let (five, held) = five_with_hold().await;
    five.fate(0..3, Fate::Down);
    fails(five.redlock.try_acquire(&held).await, ErrorKind::Indeterminate);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(five.holders(&held), 5);
}

#[tokio::test(start_paused = true)]
async fn a_late_vote_for_a_round_that_failed_does_not_count() {
    let five = five();
    let (held, other) = (claim("x"), claim("x"));
    // Node 0 votes late in the first round, and answers that vote's release even later.
    five.nodes[0].state().attempts = Fate::Late(Duration::from_millis(500));
    five.nodes[0].state().releases = Fate::Late(Duration::from_secs(2));
    five.at(1..5).for_each(|node| node.hold(&other));
    busy(&five.redlock, &held, Wait::No).await;
    five.clear(0..5);
    grant(&five.redlock, &held).await;
    wait_until("it votes late", || five.holders(&held) == 5).await;
    five.at(1..3).for_each(|node| node.restart(Restart::Empty));
    let outcomes = renew(&five.redlock, &[&held]).await;
    assert_ne!(outcomes.ok(), Some(vec![RENEWED]), "only two nodes will have it");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(five.holders(&held), 2);
}
