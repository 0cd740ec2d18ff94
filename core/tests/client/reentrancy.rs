use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};

use lockwright_core::{ErrorKind, Event, Locks, Owner, Reason};

use crate::support::{Fate, Op, TTL, client, fails, polled, secs, settle_down, troubled};

#[tokio::test(start_paused = true)]
async fn joined_request_continues_when_the_first_ends() {
    let (locks, faulty, other, _, _) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let owner = Owner::new();
    let first = polled(locks.mutex("x").reentrant(&owner).acquire());
    let second = polled(locks.mutex("x").reentrant(&owner).acquire());
    drop(first);
    held.release().await.unwrap();
    let guard = second.await.unwrap();
    assert_eq!(guard.token(), faulty.calls(Op::Acquire)[0].token, "it took the claim over");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_joiner_that_has_gone_is_not_counted() {
    let (locks, _, other, memory, _) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let owner = Owner::new();
    let first = polled(locks.mutex("x").reentrant(&owner).acquire());
    let second = polled(locks.mutex("x").reentrant(&owner).acquire());
    held.release().await.unwrap();
    let guard = first.await.unwrap();
    // The second request shares the hold, but is dropped before it returns a guard.
    drop(second);
    guard.release().await.unwrap();
    locks.close().await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_being_released_is_not_entered_again() {
    let (locks, faulty, _, _, _) = troubled();
    let owner = Owner::new();
    let guard = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
    let fence = guard.fence();
    faulty.next(Op::Release, [Fate::DelayAnswer(secs(1))]);
    let releasing = tokio::spawn(guard.release());
    settle_down().await;
    let next = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
    assert!(next.fence() > fence);
    releasing.await.unwrap().unwrap();
    next.release().await.unwrap();
}

struct Inline(Locks, AtomicU64);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.1.store(1 + self.0.metrics().held, Ordering::SeqCst);
    }
}

#[test]
fn a_loss_is_not_told_under_a_lock() {
    let (done, told) = std::sync::mpsc::channel();
    // The test runs in another thread, so that a deadlock ends in the timeout below.
    std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (locks, _, clock) = client();
            let owner = Owner::new();
            let guard = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
            let signal = guard.signal();
            let mut ended = Box::pin(signal.ended());
            let inline = Arc::new(Inline(locks.clone(), AtomicU64::new(0)));
            let waker = Waker::from(Arc::clone(&inline));
            assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            // The hold has expired, but the client hasn't checked the clock yet.
            clock.jump(TTL * 2);
            let _again = polled(locks.mutex("x").reentrant(&owner).acquire());
            assert!(guard.check().is_err());
            done.send(inline.1.load(Ordering::SeqCst)).unwrap();
        });
    });
    assert_eq!(told.recv_timeout(secs(20)), Ok(2), "woken, and it could ask the client");
}

#[tokio::test(start_paused = true)]
async fn re_entry_with_a_tighter_limit_is_a_conflict() {
    let (locks, _, other, ..) = troubled();
    let kind =
        |answer: lockwright_core::Result<lockwright_core::Guard>| answer.map_err(|e| e.kind());
    for is_shared in [false, true] {
        let request = |owner| match is_shared {
            false => locks.mutex("x").reentrant(owner),
            true => locks.read("x").reentrant(owner),
        };
        let owner = Owner::new();
        let first = request(&owner).acquire().await.unwrap();
        let error = fails(request(&owner).fixed().acquire(), ErrorKind::Conflict).await;
        assert!(error.to_string().contains("fixed"), "{error}");
        let error = fails(request(&owner).max_hold(TTL * 2).acquire(), ErrorKind::Conflict).await;
        assert!(error.to_string().contains("max_hold"), "{error}");
        first.release().await.unwrap();

        let first = request(&owner).fixed().max_hold(TTL).acquire().await.unwrap();
        let same = request(&owner).fixed().max_hold(TTL).acquire().await.unwrap();
        let longer = request(&owner).max_hold(TTL * 2).acquire().await.unwrap();
        let plain = request(&owner).ttl(secs(1)).acquire().await.unwrap();
        assert_eq!((plain.token(), plain.deadline()), (first.token(), first.deadline()));
        assert_eq!(
            kind(request(&owner).max_hold(secs(1)).acquire().await).unwrap_err(),
            ErrorKind::Conflict
        );
        drop((first, same, longer, plain));
        settle_down().await;
    }
    let held = other.mutex("x").acquire().await.unwrap();
    let owner = Owner::new();
    let first = tokio::spawn(locks.mutex("x").reentrant(&owner).acquire());
    settle_down().await;
    let second = tokio::spawn(locks.mutex("x").reentrant(&owner).fixed().acquire());
    settle_down().await;
    held.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    assert_eq!(kind(second.await.unwrap()).unwrap_err(), ErrorKind::Conflict);
    guard.release().await.unwrap();
}

/// Without sharing, the second request would wait for its own owner.
#[tokio::test(start_paused = true)]
async fn concurrent_requests_of_an_owner_share_a_permit() {
    let (locks, faulty, _, memory, _) = troubled();
    let owner = Owner::new();
    let request = || locks.semaphore("x", 1).reentrant(&owner).acquire();
    faulty.next(Op::Acquire, [Fate::DelayAnswer(secs(1))]);
    let (first, second) = tokio::join!(request(), request());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.token(), second.token());
    first.release().await.unwrap();
    second.release().await.unwrap();
    locks.close().await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn hold_lost_before_its_deadline_is_not_entered() {
    let (locks, faulty, ..) = troubled();
    let owner = Owner::new();
    let first = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
    let second = locks.mutex("x").reentrant(&owner).acquire().await.unwrap();
    faulty.send_event(&Event::Lost(first.token(), Reason::Gone));
    assert!(first.check().is_err());
    assert!(locks.mutex("x").reentrant(&owner).try_acquire().await.unwrap().is_none());
    fails(second.release(), ErrorKind::Lost(Reason::Gone)).await;
}
