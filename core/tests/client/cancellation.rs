//! Tests that every future may be dropped at every await point.

use lockwright_core::Locks;

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, another_client, poll_once, polled, secs, settle_down, troubled,
};

#[tokio::test(start_paused = true)]
async fn next_local_waiter_inherits_an_equal_claim_and_its_place() {
    for ttl in [TTL, secs(60)] {
        let is_equal = ttl == TTL;
        let (locks, faulty, other, memory, clock) = troubled();
        let held = other.mutex("x").acquire().await.unwrap();
        let first = polled(locks.mutex("x").acquire());
        let second = polled(locks.mutex("x").ttl(ttl).acquire());
        let behind = another_client(&memory, &clock);
        let mut behind = polled(behind.mutex("x").acquire());
        drop(first);
        settle_down().await;
        assert_eq!(faulty.calls(Op::Release).len(), usize::from(!is_equal));
        held.release().await.unwrap();
        if !is_equal {
            (&mut behind).await.unwrap().release().await.unwrap();
        }
        let guard = second.await.unwrap();
        assert_eq!(guard.token() == faulty.calls(Op::Acquire)[0].token, is_equal);
        guard.release().await.unwrap();
        if is_equal {
            behind.await.unwrap().release().await.unwrap();
        }
        assert!(memory.is_empty());
    }
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
