//! Tests of failed and unanswered requests.

use std::time::Duration;

use lockwright_core::{Clock, Error, ErrorKind, Guard, ReleaseMode, Request, Step};

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, fails, millis, polled, secs, settle_down, silence, troubled,
    troubled_with,
};

#[tokio::test(start_paused = true)]
async fn an_acquire_goes_on_with_the_same_token_through_lost_answers() {
    let (locks, faulty, _, _, _) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseAnswer, Fate::LoseAnswer, UNAVAILABLE]);
    let guard = locks.mutex("x").acquire().await.unwrap();
    let calls = faulty.calls(Op::Acquire);
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| call.token == guard.token()));
    guard.release().await.unwrap();
    locks.mutex("answered").acquire().await.unwrap().release().await.unwrap();
    let modes: Vec<_> = faulty.calls(Op::Release).iter().map(|call| call.release_mode).collect();
    assert_eq!(modes, [Some(ReleaseMode::Reconcile), Some(ReleaseMode::Plain)]);
}

#[tokio::test(start_paused = true)]
async fn reconciliation_continues_until_it_is_answered() {
    let (locks, faulty, _, memory, _) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseAnswer]);
    faulty.next(Op::Release, vec![UNAVAILABLE; 8]);
    locks.mutex("x").try_acquire().await.unwrap_err();
    settle_down().await;
    assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(faulty.calls(Op::Acquire).len(), 2);
    let guard = locks.mutex("x").wait_for(TTL * 3).acquire().await.unwrap();
    assert_eq!(faulty.calls(Op::Release).len(), 9);
    guard.release().await.unwrap();
    assert!(memory.is_empty());
    assert_eq!(locks.metrics().settled, 1);
}

#[tokio::test(start_paused = true)]
async fn without_tombstones_it_is_released_until_it_can_no_longer_be_held() {
    let (locks, faulty, _, _, clock) = troubled_with(|profile| profile.tombstones = false);
    faulty.next(Op::Acquire, [Fate::Hang]);
    let start = clock.now();
    assert!(locks.mutex("x").try_acquire().await.is_err());
    locks.mutex("x").wait_for(TTL * 4).acquire().await.unwrap().release().await.unwrap();
    let releases = faulty.calls(Op::Release);
    let last = releases.iter().rev().nth(1).unwrap();
    assert!(last.at > start + TTL, "one NotHeld ended the reconciliation");
}

#[tokio::test(start_paused = true)]
async fn without_tombstones_it_is_released_until_one_ttl_after_its_last_request() {
    let (locks, faulty, other, _, clock) = troubled_with(|profile| profile.tombstones = false);
    let _held = other.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("x").acquire());
    clock.sleep(TTL / 2).await;
    faulty.always(Op::Acquire, Fate::Hang);
    faulty.called(Op::Acquire, faulty.calls(Op::Acquire).len() + 1).await;
    let last_sent = clock.now();
    waiting.abort();
    clock.sleep(TTL * 3).await;
    assert!(faulty.calls(Op::Release).last().unwrap().at > last_sent + TTL);
}

#[tokio::test(start_paused = true)]
async fn without_tombstones_a_hold_is_released_until_its_acquire_can_no_longer_arrive() {
    for grant in [Fate::Pass, Fate::StartBefore(secs(9))] {
        let (locks, faulty, _, _, clock) = troubled_with(|profile| profile.tombstones = false);
        faulty.next(Op::Acquire, [Fate::LoseRequest, grant]);
        let guard = locks.mutex("x").acquire().await.unwrap();
        let sent = faulty.calls(Op::Acquire)[1];
        guard.release().await.unwrap();
        clock.sleep(TTL * 3).await;
        let releases = faulty.calls(Op::Release);
        let last = releases.iter().rfind(|release| release.token == sent.token).unwrap();
        assert!(last.at > sent.at + TTL, "{grant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_reconciliation_is_not_given_up() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseRequest]);
    faulty.always(Op::Release, UNAVAILABLE);
    locks.mutex("x").try_acquire().await.unwrap_err();
    clock.sleep(TTL * 5).await;
    assert_eq!(locks.metrics().releasing, 1);
}

#[tokio::test(start_paused = true)]
async fn errors_that_time_does_not_heal_come_at_once() {
    for kind in [ErrorKind::Denied, ErrorKind::Conflict, ErrorKind::InvalidInput] {
        let (locks, faulty, _, _, clock) = troubled();
        faulty.next(Op::Acquire, [Fate::Refuse(kind)]);
        let start = clock.now();
        fails(locks.mutex("x").acquire(), kind).await;
        assert_eq!(clock.now(), start);
        settle_down().await;
        assert!(faulty.calls(Op::Release).is_empty(), "nothing can stand on the server");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_waited_for_as_long_as_said() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.next(Op::Acquire, vec![UNAVAILABLE; 1_000]);
    let start = clock.now();
    let error =
        fails(locks.mutex("x").wait_for(secs(30)).acquire(), ErrorKind::TimedOut(Step::Answer))
            .await;
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Error>());
    assert_eq!(cause.map(Error::kind), Some(ErrorKind::Unavailable), "what it said is told");
    assert_eq!(clock.now().saturating_since(start).as_secs(), 30);
    let start = clock.now();
    fails(locks.mutex("x").acquire(), ErrorKind::Unavailable).await;
    let waited = clock.now().saturating_since(start);
    assert!(waited >= TTL && waited <= TTL + secs(2), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_ended_meanwhile_is_given_up_and_inherited_by_nobody() {
    use lockwright_core::{BreakMode, BreakTarget};

    let (locks, faulty, other, memory, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseAnswer]);
    let first = polled(locks.mutex("x").acquire());
    let second = polled(locks.mutex("x").acquire());
    other.break_lock("x", BreakTarget::Any, BreakMode::Now, "it hangs").await.unwrap();
    let start = clock.now();
    let guard = first.await.unwrap();
    assert_ne!(guard.token(), faulty.calls(Op::Acquire)[0].token);
    guard.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    assert!(clock.now().saturating_since(start) < secs(1));
    locks.close().await;
    assert!(memory.is_empty());
}

async fn failure(clock: &Clock, request: Request<Guard>) -> (Error, Duration) {
    let begun = clock.now();
    let ended = tokio::time::timeout(TTL * 20, request.acquire()).await;
    let error = ended.expect("the request does not hang").unwrap_err();
    (error, clock.now().saturating_since(begun))
}

#[tokio::test(start_paused = true)]
async fn request_without_limit_fails_within_one_ttl_of_silence() {
    let (locks, faulty, _, _, clock) = troubled();
    silence(&faulty, true);
    for request in [locks.mutex("x"), locks.read("y")] {
        let (error, time) = failure(&clock, request).await;
        assert_eq!(error.kind(), ErrorKind::Indeterminate);
        assert!(time <= TTL + millis(10), "{time:?}");
    }
    let begun = clock.now();
    let both = tokio::time::timeout(TTL * 20, locks.multi(["a", "b"]).acquire()).await;
    assert!(both.expect("the request does not hang").unwrap_err().is_transient());
    assert!(clock.now() <= begun + TTL + millis(10), "{:?}", clock.now().saturating_since(begun));
}

#[tokio::test(start_paused = true)]
async fn request_behind_an_unanswered_one_fails_within_one_ttl() {
    for first in ["a request", "a dropped request", "a release"] {
        let (locks, faulty, _, _, clock) = troubled();
        let held = locks.mutex("x").acquire().await.unwrap();
        if first != "a release" {
            held.release().await.unwrap();
            silence(&faulty, true);
            let request = locks.mutex("x").wait_for(secs(1)).acquire();
            let limit = if first == "a request" { TTL } else { millis(100) };
            assert_eq!(tokio::time::timeout(limit, request).await.is_ok(), first == "a request");
        } else {
            silence(&faulty, true);
            drop(held);
        }
        let (error, time) = failure(&clock, locks.mutex("x")).await;
        assert!(error.is_transient() && !error.is_timed_out(), "{first}: {error:?}");
        assert!(time <= TTL + millis(10), "{first}: {time:?}");
        let error = fails(locks.mutex("x").try_acquire(), ErrorKind::Unavailable).await;
        assert!(error.to_string().contains("has not answered"), "{first}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_queue_fails_within_one_ttl_of_silence() {
    let (locks, faulty, _, _, clock) = troubled();
    silence(&faulty, true);
    let patient = locks.mutex("x").wait_for(TTL * 10);
    let patient = tokio::spawn(patient.acquire());
    settle_down().await;
    let waiting = (0..5).map(|_| {
        let (locks, clock) = (locks.clone(), clock.clone());
        tokio::spawn(async move { failure(&clock, locks.mutex("x")).await })
    });
    for waiting in waiting.collect::<Vec<_>>() {
        let (error, time) = waiting.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "it sent nothing");
        assert!(std::error::Error::source(&error).is_some(), "the cause is reported");
        assert!(time <= TTL + millis(10), "{time:?}");
    }
    let error = patient.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut(Step::Answer));
}

#[tokio::test(start_paused = true)]
async fn request_does_not_wait_for_the_reconciliation_of_an_old_claim() {
    let (locks, faulty, _, memory, clock) = troubled();
    silence(&faulty, true);
    locks.mutex("x").wait_for(secs(1)).acquire().await.unwrap_err();
    clock.sleep(secs(6)).await;
    faulty.always(Op::Acquire, Fate::Pass);
    let begun = clock.now();
    let acquired = tokio::time::timeout(TTL * 20, locks.mutex("x").acquire()).await;
    let guard = acquired.expect("the request does not hang").unwrap();
    assert_eq!(clock.now(), begun);
    silence(&faulty, false);
    clock.sleep(TTL * 3).await;
    guard.check().expect("the release of the old claim has another token");
    guard.release().await.unwrap();
    locks.close().await;
    assert!(memory.is_empty());
}
