//! Outcomes are honest, and what nobody knows is settled by token.

use lockwright_core::{Error, ErrorKind, Settle, Step};

use crate::support::{Act, TTL, millis, secs, settle_down, troubled};

#[tokio::test(start_paused = true)]
async fn a_try_with_a_lost_answer_says_so_and_leaves_nothing() {
    let (locks, stage, other, memory, _) = troubled();
    stage.on_acquire([Act::AnswerLost]);
    let error = locks.mutex("x").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert_eq!(error.name().unwrap().as_str(), "x");
    settle_down().await;
    let release = stage.calls("release")[0];
    assert_eq!(release.settle, Some(Settle::Unanswered));
    other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert!(memory.is_empty());
    assert_eq!(locks.metrics().settled, 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_duplicate_does_not_bring_it_back() {
    let (locks, stage, other, memory, clock) = troubled();
    stage.on_acquire([Act::ArriveLate(secs(30))]);
    locks.mutex("x").try_acquire().await.unwrap_err();
    clock.sleep(secs(31)).await;
    assert!(memory.is_empty(), "the tombstone kept it out");
    other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquire_goes_on_with_the_same_token_through_lost_answers() {
    let (locks, stage, _, _, _) = troubled();
    stage.on_acquire([Act::AnswerLost, Act::AnswerLost, Act::Refuse(ErrorKind::Unavailable)]);
    let guard = locks.mutex("x").acquire().await.unwrap();
    let calls = stage.calls("acquire");
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| call.token == guard.token()));
    guard.release().await.unwrap();
    // A lost one may still arrive, so its release writes a tombstone.
    assert_eq!(stage.calls("release")[0].settle, Some(Settle::Unanswered));
}

#[tokio::test(start_paused = true)]
async fn answered_holds_are_released_without_a_tombstone() {
    let (locks, stage, _, _, _) = troubled();
    locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(stage.calls("release")[0].settle, Some(Settle::Answered));
}

#[tokio::test(start_paused = true)]
async fn settling_goes_on_until_it_is_answered_and_keeps_the_turn() {
    let (locks, stage, other, memory, clock) = troubled();
    stage.on_acquire([Act::AnswerLost]);
    stage.on_release(vec![Act::Refuse(ErrorKind::Unavailable); 8]);
    locks.mutex("x").try_acquire().await.unwrap_err();
    settle_down().await;
    // The turn is taken: the client doesn't fight its own ghost.
    assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(stage.calls("acquire").len(), 1);
    let guard = locks.mutex("x").wait_for(TTL * 3).acquire().await.unwrap();
    assert_eq!(stage.calls("release").len(), 9);
    guard.release().await.unwrap();
    let _ = (other, clock);
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_tombstones_it_is_released_until_it_can_no_longer_be_held() {
    let (locks, stage, _, _, clock) = troubled();
    stage.promise(|profile| profile.tombstones = false);
    stage.on_acquire([Act::Vanish]);
    let start = clock.now();
    assert!(locks.mutex("x").try_acquire().await.is_err());
    locks.mutex("x").wait_for(TTL * 4).acquire().await.unwrap().release().await.unwrap();
    let releases = stage.calls("release");
    let last = releases.iter().rev().nth(1).unwrap();
    assert!(last.at > start + TTL, "not held, once, did not settle it");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_release_goes_on_in_the_background() {
    let (locks, stage, other, memory, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    stage.on_release([Act::Refuse(ErrorKind::Unavailable)]);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    clock.sleep(secs(1)).await;
    other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_release_does_not_last_for_ever() {
    let (locks, stage, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    stage.on_release([Act::Vanish]);
    let start = clock.now();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(clock.now().saturating_since(start) <= secs(5) + millis(5));
    locks.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_panicking_release_does_not_keep_the_name() {
    let (locks, stage, _, memory, _) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    stage.on_release([Act::Panic, Act::Panic]);
    drop(guard);
    locks.mutex("x").wait_for(TTL).acquire().await.unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn errors_that_time_does_not_heal_come_at_once() {
    for kind in [ErrorKind::Denied, ErrorKind::Conflict, ErrorKind::InvalidInput] {
        let (locks, stage, _, _, clock) = troubled();
        stage.on_acquire([Act::Refuse(kind)]);
        let start = clock.now();
        let error = locks.mutex("x").acquire().await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(clock.now(), start);
        settle_down().await;
        assert!(stage.calls("release").is_empty(), "nothing can stand on the server");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_waited_for_as_long_as_said() {
    let (locks, stage, _, _, clock) = troubled();
    stage.on_acquire(vec![Act::Refuse(ErrorKind::Unavailable); 1_000]);
    let start = clock.now();
    let error = locks.mutex("x").wait_for(secs(30)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut(Step::Answer));
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Error>());
    assert_eq!(cause.map(Error::kind), Some(ErrorKind::Unavailable), "what it said is told");
    assert_eq!(clock.now().saturating_since(start).as_secs(), 30);
    // Without a limit, for one TTL.
    let start = clock.now();
    let error = locks.mutex("x").acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let waited = clock.now().saturating_since(start);
    assert!(waited >= TTL && waited <= TTL + secs(2), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_ended_meanwhile_is_given_up_and_inherited_by_nobody() {
    use lockwright_core::{BreakHow, Seen};

    let (locks, stage, other, memory, clock) = troubled();
    // It is granted, its answer is lost, and before it asks again an operator breaks it.
    stage.on_acquire([Act::AnswerLost]);
    let mut first = Box::pin(locks.mutex("x").acquire());
    let mut second = Box::pin(locks.mutex("x").acquire());
    assert!(crate::queue::futures_poll(&mut first).is_none());
    assert!(crate::queue::futures_poll(&mut second).is_none());
    other.break_lock("x", Seen::Any, BreakHow::Now, "it hangs").await.unwrap();
    let start = clock.now();
    let guard = first.await.unwrap();
    assert_ne!(guard.token(), stage.calls("acquire")[0].token);
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert!(clock.now().saturating_since(start) < secs(1));
    locks.close().await;
    assert!(memory.is_empty());
}
