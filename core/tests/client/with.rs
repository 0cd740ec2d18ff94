use std::future::pending;
use std::sync::Arc;

use lockwright_core::{BreakMode, BreakTarget, ErrorKind, Event, Guard, Locks, Reason};

use crate::support::{Fate, Op, TTL, UNAVAILABLE, client, fails, secs, troubled};

async fn expect_free(other: &Locks) {
    other.mutex("x").wait_for(secs(1)).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_runs_under_the_lock_in_a_spawned_task() {
    let (locks, _, other, memory, clock) = troubled();
    let work = async move {
        let text = String::from("seven");
        let work = async |guard: &Guard| {
            clock.sleep(TTL * 2).await;
            assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
            guard.check().unwrap();
            text.len()
        };
        locks.mutex("x").with(work).await
    };
    assert_eq!(tokio::spawn(work).await.unwrap().unwrap(), 5);
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn every_request_runs_work() {
    let (locks, memory, _) = client();
    locks.read("x").with(async |guard| guard.check()).await.unwrap().unwrap();
    locks.semaphore("y", 2).with(async |permit| permit.check()).await.unwrap().unwrap();
    let campaign = locks.election("z").campaign("me");
    assert_eq!(campaign.with(async |lead| lead.value().to_owned()).await.unwrap(), "me");
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_loss_drops_the_work() {
    let (locks, faulty, other, _, clock) = troubled();
    let running = Arc::new(());
    let work = async |guard: &Guard| {
        let _running = Arc::clone(&running);
        faulty.send_event(&Event::Lost(guard.token(), Reason::SessionEnded));
        clock.sleep(TTL * 5).await;
    };
    let begun = clock.now();
    fails(locks.mutex("x").with(work), ErrorKind::Lost(Reason::SessionEnded)).await;
    assert_eq!((Arc::strong_count(&running), clock.now()), (1, begun));
    expect_free(&other).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_release_keeps_the_output() {
    for fate in [UNAVAILABLE, Fate::LoseRequest, Fate::Refuse(ErrorKind::Denied), Fate::Hang] {
        let (locks, faulty, other, ..) = troubled();
        faulty.next(Op::Release, [fate]);
        assert_eq!(locks.mutex("x").with(async |_| 7).await.unwrap(), 7);
        assert!(other.mutex("x").try_acquire().await.unwrap().is_none(), "{fate:?}");
        expect_free(&other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_gone_at_the_release_is_a_loss() {
    let (locks, faulty, other, ..) = troubled();
    faulty.next(Op::Release, [Fate::Slow(secs(1))]);
    let with = tokio::spawn(locks.mutex("x").with(async |guard| guard.fence()));
    faulty.called(Op::Release, 1).await;
    let target = BreakTarget::Token(faulty.calls(Op::Acquire)[0].token);
    other.break_lock("x", target, BreakMode::Now, "to see").await.unwrap();
    fails(async { with.await.unwrap() }, ErrorKind::Lost(Reason::Gone)).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_it_drops_the_work_and_releases() {
    let (locks, _, other, memory, _) = troubled();
    let running = Arc::new(());
    let mut with = Box::pin(locks.mutex("x").with(async |_| {
        let _running = Arc::clone(&running);
        pending::<()>().await
    }));
    assert!(tokio::time::timeout(secs(1), &mut with).await.is_err());
    assert_eq!(Arc::strong_count(&running), 2);
    drop(with);
    assert_eq!(Arc::strong_count(&running), 1);
    expect_free(&other).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn work_without_the_lock_is_not_called() {
    let (locks, _, other, ..) = troubled();
    let _held = other.mutex("x").acquire().await.unwrap();
    let with = locks.mutex("x").wait_for(secs(1)).with(async |_| panic!("it isn't held"));
    assert!(with.await.unwrap_err().is_timed_out());
}
