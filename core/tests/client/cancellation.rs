//! Tests that every future may be dropped at every await point.

use std::time::Duration;

use lockwright_core::{Guard, Locks, Result};

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, millis, poll_once, polled, secs, settle_down, troubled,
};

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_leaves_nothing_whatever_the_server_did() {
    let delays = [Fate::DelayAnswer(secs(1)), Fate::DelayRequest(secs(1))];
    for fate in [Fate::Hang, Fate::DoAndHang].into_iter().chain(delays) {
        let (locks, faulty, other, memory, clock) = troubled();
        faulty.next(Op::Acquire, [fate]);
        let acquire = polled(locks.mutex("x").acquire());
        drop(acquire);
        clock.sleep(secs(2)).await;
        other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        assert!(memory.is_empty(), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_local_waiter_inherits_the_claim_and_its_place() {
    let (locks, faulty, other, memory, clock) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let first = polled(locks.mutex("x").acquire());
    let second = polled(locks.mutex("x").acquire());
    let third = crate::support::another_client(&memory, &clock);
    let behind = polled(third.mutex("x").acquire());
    drop(first);
    held.release().await.unwrap();
    let guard = second.await.unwrap();
    assert_eq!(guard.token(), faulty.calls(Op::Acquire)[0].token);
    assert!(faulty.calls(Op::Release).is_empty());
    guard.release().await.unwrap();
    behind.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_outlives_an_heir_that_has_gone() {
    for third_waits in [true, false] {
        let (locks, faulty, other, memory, _) = troubled();
        let held = other.mutex("x").acquire().await.unwrap();
        let first = polled(locks.mutex("x").acquire());
        let second = polled(locks.mutex("x").acquire());
        let mut third = Box::pin(locks.mutex("x").acquire());
        if third_waits {
            assert!(poll_once(&mut third).is_none());
        }
        drop(second);
        drop(first);
        settle_down().await;
        assert_eq!(faulty.calls(Op::Release).len(), usize::from(!third_waits));
        held.release().await.unwrap();
        let guard = third.await.unwrap();
        assert_eq!(guard.token() == faulty.calls(Op::Acquire)[0].token, third_waits);
        guard.release().await.unwrap();
        assert!(memory.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_wants_something_else_does_not_inherit() {
    let (locks, faulty, other, _, _) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let first = polled(locks.mutex("x").acquire());
    let second = polled(locks.mutex("x").ttl(secs(60)).acquire());
    drop(first);
    settle_down().await;
    assert_eq!(faulty.calls(Op::Release).len(), 1, "the first claim leaves the queue");
    held.release().await.unwrap();
    let guard = second.await.unwrap();
    assert_ne!(guard.token(), faulty.calls(Op::Acquire)[0].token);
}

#[test]
fn a_guard_may_be_dropped_outside_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let memory = lockwright_memory::Memory::new();
    let (locks, guard) = runtime.block_on(async {
        let locks = Locks::new(memory.clone()).unwrap();
        let guard = locks.mutex("x").acquire().await.unwrap();
        (locks, guard)
    });
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!(!memory.is_empty(), "nothing runs between two block_ons");
    runtime.block_on(locks.close());
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_release_goes_on() {
    for fate in [Fate::Hang, Fate::DoAndHang, Fate::DelayAnswer(secs(1))] {
        let (locks, faulty, other, memory, clock) = troubled();
        let guard = locks.mutex("x").acquire().await.unwrap();
        faulty.next(Op::Release, [fate]);
        let release = polled(guard.release());
        drop(release);
        clock.sleep(millis(100)).await;
        other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        assert!(memory.is_empty());
    }
}

/// Polls an acquire for `polls` periods of 0.7 s, with a pause after each. Then drops the acquire
/// and returns `None`, unless it has completed.
async fn acquire_for(
    locks: &Locks,
    polls: usize,
    clock: &lockwright_core::Clock,
) -> Option<Result<Guard>> {
    let mut acquire = Box::pin(locks.mutex("x").wait_for(secs(20)).acquire());
    for _ in 0..polls {
        let waited = tokio::time::timeout(Duration::from_millis(700), &mut acquire).await;
        if let Ok(result) = waited {
            return Some(result);
        }
        clock.sleep(millis(1)).await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_waiting_acquire_may_be_dropped_at_any_time() {
    for polls in 0..30 {
        let (locks, faulty, other, memory, clock) = troubled();
        let held = other.mutex("x").acquire().await.unwrap();
        faulty.next(Op::Acquire, [Fate::Pass, Fate::DelayAnswer(secs(2)), Fate::LoseAnswer]);
        let (acquired, ()) = tokio::join!(acquire_for(&locks, polls, &clock), async {
            clock.sleep(secs(9)).await;
            held.release().await.unwrap();
        });
        drop(acquired);
        clock.sleep(TTL).await;
        other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
        locks.close().await;
        assert!(memory.is_empty(), "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_claim_is_taken_back_also_after_an_error() {
    let (locks, faulty, other, _, _) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Acquire, [Fate::Pass, Fate::Pass].into_iter().chain([UNAVAILABLE; 100]));
    let mut acquire = polled(locks.mutex("x").acquire());
    let _ = tokio::time::timeout(secs(2), &mut acquire).await;
    assert!(faulty.calls(Op::Acquire).len() >= 3);
    assert_eq!(other.inspect("x").await.unwrap().waiters, Some(1));
    drop(acquire);
    settle_down().await;
    assert_eq!(other.inspect("x").await.unwrap().waiters, Some(0));
    held.release().await.unwrap();
}
