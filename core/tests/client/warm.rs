use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Clock, ErrorKind, Event, Guard, HoldState, Locks, Owner, Reason,
    Request,
};
use lockwright_memory::Memory;

use crate::support::{
    Fate, Faulty, Op, TTL, client, fails, faulty_memory, millis, poll_once, polled, runtime, secs,
    settle_down, troubled, troubled_with, two_clients_elsewhere,
};

const KEPT: Duration = Duration::from_secs(2);

fn warm(locks: &Locks) -> Request<Guard> {
    locks.mutex("x").keep_warm(KEPT)
}

fn requests(faulty: &Faulty) -> usize {
    faulty.calls(Op::Acquire).len() + faulty.calls(Op::Release).len()
}

#[tokio::test(start_paused = true)]
async fn the_next_request_gets_the_hold_without_the_server() {
    let (locks, faulty, other, memory, _) = troubled();
    let first = warm(&locks).acquire().await.unwrap();
    let (token, fence, before) = (first.token(), first.fence(), requests(&faulty));
    first.release().await.unwrap();
    let second = warm(&locks).try_acquire().await.unwrap().unwrap();
    assert_eq!(second.token(), token);
    assert!(second.fence() > fence);
    second.check().unwrap();
    assert_eq!(requests(&faulty), before);
    drop(second);
    // A request without this setting takes the hold, and releases it.
    let third = locks.mutex("x").acquire().await.unwrap();
    assert_eq!(third.token(), token);
    let fence = third.fence();
    third.release().await.unwrap();
    assert!(memory.is_empty());
    let metrics = locks.metrics();
    assert_eq!((metrics.acquired, metrics.handed_over, metrics.released), (3, 2, 3));
    assert!(other.mutex("x").acquire().await.unwrap().fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn the_hold_is_released_at_its_time() {
    let (locks, memory, clock) = client();
    for _ in 0..3 {
        warm(&locks).acquire().await.unwrap().release().await.unwrap();
        clock.sleep(KEPT - millis(10)).await;
        assert!(!memory.is_empty());
    }
    clock.sleep(millis(20)).await;
    assert!(memory.is_empty());
    assert_eq!(locks.metrics().handed_over, 2);
    assert_eq!(locks.metrics().held, 0);
}

/// A hold that is in use when its check is due must get another check.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_and_released_again_is_released_at_its_time() {
    let (locks, memory, clock) = client();
    // Shorter than the time to the first renewal, which checks the hold too.
    let kept = millis(500);
    let warm = || locks.mutex("x").keep_warm(kept);
    warm().acquire().await.unwrap().release().await.unwrap();
    let again = warm().acquire().await.unwrap();
    clock.sleep(kept + millis(10)).await;
    again.release().await.unwrap();
    clock.sleep(kept - millis(10)).await;
    assert!(!memory.is_empty());
    clock.sleep(millis(20)).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_warm_for_at_most_one_ttl() {
    let (locks, memory, clock) = client();
    let guard = locks.mutex("x").keep_warm(TTL * 3).acquire().await.unwrap();
    clock.sleep(TTL / 2).await;
    guard.release().await.unwrap();
    clock.sleep(TTL / 2 - millis(10)).await;
    assert!(!memory.is_empty());
    clock.sleep(millis(20)).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_client_gets_a_warm_lock() {
    let (locks, _, other, memory, clock) = troubled();
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    let before = clock.now();
    let guard = other.mutex("x").acquire().await.unwrap();
    assert_eq!(clock.now(), before);
    assert!(locks.metrics().recalled > 0);
    guard.release().await.unwrap();
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    settle_down().await;
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    settle_down().await;
    let guard = other.mutex("x").try_acquire().await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert!(memory.is_empty());
}

/// A renewal reports the waiting client too.
#[tokio::test(start_paused = true)]
async fn a_lost_recall_delays_another_client_until_the_renewal() {
    let (locks, faulty, other, _, clock) = troubled();
    locks.mutex("x").keep_warm(TTL).acquire().await.unwrap().release().await.unwrap();
    faulty.drop_wakes(true);
    let before = clock.now();
    let _guard = other.mutex("x").acquire().await.unwrap();
    let waited = clock.now().saturating_since(before);
    assert!(waited > millis(1) && waited < TTL / 2, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_recalled_hold_is_not_kept_warm() {
    let (locks, _, other, memory, _) = troubled();
    let guard = warm(&locks).acquire().await.unwrap();
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    settle_down().await;
    guard.release().await.unwrap();
    assert!(memory.is_empty());
}

/// The recall arrives just before the request, so the renewal task hasn't handled it.
#[tokio::test(start_paused = true)]
async fn a_recall_comes_before_a_local_request() {
    let (locks, faulty, ..) = troubled();
    let guard = warm(&locks).acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    faulty.send_event(&Event::Recall(token));
    assert_ne!(warm(&locks).acquire().await.unwrap().token(), token);
}

#[tokio::test(start_paused = true)]
async fn the_release_of_a_warm_hold_is_reported() {
    let (locks, _, _) = client();
    let guard = warm(&locks).acquire().await.unwrap();
    let signal = guard.signal();
    guard.release().await.unwrap();
    assert_eq!(signal.state(), HoldState::Released);
    let _again = warm(&locks).acquire().await.unwrap();
    assert_eq!(signal.state(), HoldState::Released);
}

/// Returns whether the next request gets the warm hold, after `meanwhile`.
async fn is_kept(meanwhile: impl AsyncFn(&Faulty, &Guard)) -> bool {
    let (locks, faulty, ..) = troubled();
    let guard = warm(&locks).acquire().await.unwrap();
    meanwhile(&faulty, &guard).await;
    let (token, fence) = (guard.token(), guard.fence());
    let _ = guard.release().await;
    let next = warm(&locks).acquire().await.unwrap();
    assert!(next.fence() > fence);
    next.token() == token
}

#[tokio::test(start_paused = true)]
async fn a_lost_or_unconfirmed_hold_is_not_kept() {
    assert!(is_kept(async |_, _| ()).await);
    let lost = async |faulty: &Faulty, guard: &Guard| {
        faulty.send_event(&Event::Lost(guard.token(), Reason::SessionEnded));
    };
    assert!(!is_kept(lost).await);
    let unsure = async |faulty: &Faulty, guard: &Guard| {
        faulty.next(Op::Renew, [Fate::LoseAnswer]);
        fails(guard.renew(), ErrorKind::Indeterminate).await;
    };
    assert!(!is_kept(unsure).await);
    let at_risk = async |faulty: &Faulty, guard: &Guard| {
        faulty.always(Op::Renew, Fate::Hang);
        faulty.send_event(&Event::AtRisk(guard.token()));
    };
    assert!(!is_kept(at_risk).await);
}

/// Fails if a request takes a warm hold without checking it.
#[tokio::test(start_paused = true)]
async fn a_warm_hold_that_ended_is_not_taken() {
    for how in [BreakMode::Now, BreakMode::RunOut] {
        let (locks, _, other, _, _) = troubled();
        let guard = warm(&locks).acquire().await.unwrap();
        let (token, fence) = (guard.token(), guard.fence());
        guard.release().await.unwrap();
        other.break_lock("x", BreakTarget::Token(token), how, "a test").await.unwrap();
        let next = warm(&locks).acquire().await.unwrap();
        assert_ne!(next.token(), token);
        assert!(next.fence().get() >= fence.get() + 64, "the block of {fence} wasn't passed");
        assert_eq!(locks.metrics().lost, 0, "no guard had the hold");
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_hold_without_renewals_is_not_taken_after_half_of_its_ttl() {
    let (locks, faulty, _, memory, clock) = troubled();
    let guard = locks.mutex("x").keep_warm(TTL).acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    faulty.always(Op::Renew, Fate::Hang);
    clock.sleep(TTL * 492 / 1000).await;
    let next = warm(&locks).acquire().await.unwrap();
    assert_ne!(next.token(), token);
    next.release().await.unwrap();
    clock.sleep(TTL).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn warm_hold_is_released_before_a_request_that_cannot_use_it() {
    let different: [fn(&Locks) -> Request<Guard>; 4] = [
        |locks| locks.mutex("x").ttl(TTL / 2),
        |locks| locks.mutex("x").fixed(),
        |locks| locks.mutex("x").max_hold(TTL),
        |locks| locks.mutex("x").reentrant(&Owner::new()),
    ];
    for request in different {
        let (locks, faulty, _, memory, _) = troubled();
        let guard = warm(&locks).acquire().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = request(&locks).try_acquire().await.unwrap().unwrap();
        assert_ne!(next.token(), token);
        assert_eq!(faulty.calls(Op::Acquire).len(), 2, "it was free");
        next.release().await.unwrap();
        assert!(memory.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_no_warm_hold() {
    let (locks, faulty, _, memory, clock) = troubled();
    faulty.yields(true);
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    let mut fixed = polled(locks.mutex("x").fixed().acquire());
    assert!(poll_once(&mut fixed).is_none());
    let next = polled(locks.mutex("x").acquire());
    drop(fixed);
    next.await.unwrap().release().await.unwrap();
    clock.sleep(millis(1)).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_releases_a_warm_hold_has_its_turn() {
    let (locks, faulty, other, _, _) = troubled();
    faulty.yields(true);
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    let fixed = polled(locks.mutex("x").fixed().acquire());
    let next = polled(locks.mutex("x").acquire());
    let fixed = fixed.await.unwrap();
    settle_down().await;
    assert_eq!(other.inspect("x").await.unwrap().waiters, Some(0), "the next one waits locally");
    fixed.release().await.unwrap();
    let _next = next.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_releases_a_warm_hold_may_not_change_the_mode() {
    let (locks, faulty, ..) = troubled();
    faulty.yields(true);
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    let owner = Owner::new();
    let exclusive = polled(locks.mutex("x").reentrant(&owner).acquire());
    fails(locks.read("x").reentrant(&owner).acquire(), ErrorKind::Conflict).await;
    let _exclusive = exclusive.await.unwrap();
}

/// No guard uses the hold, so its release needn't wait for the deadline.
#[tokio::test(start_paused = true)]
async fn a_warm_hold_is_released_when_it_is_lost() {
    let (locks, faulty, _, memory, clock) = troubled();
    locks.mutex("x").keep_warm(TTL).acquire().await.unwrap().release().await.unwrap();
    faulty.always(Op::Renew, Fate::Hang);
    clock.sleep(TTL * 9 / 10).await;
    assert!(memory.is_empty());
    assert_eq!(locks.metrics().held, 0);
}

#[test]
fn a_client_whose_runtime_ended_keeps_nothing_warm() {
    let (there, locks, other) = two_clients_elsewhere(secs(10));
    let here = runtime();
    let guard = here.block_on(warm(&locks).acquire()).unwrap();
    there.shutdown_timeout(secs(1));
    here.block_on(guard.release()).unwrap();
    assert!(here.block_on(other.mutex("x").try_acquire()).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_take_the_hold_prevents_a_warm_hold() {
    let (locks, _, clock) = client();
    let before = clock.now();
    let guard = warm(&locks).acquire().await.unwrap();
    let limited = polled(locks.mutex("x").max_hold(TTL).acquire());
    guard.release().await.unwrap();
    let _limited = limited.await.unwrap();
    assert_eq!(clock.now(), before);
}

/// Fails if the request's share stays marked as not taken, so that the hold isn't renewed.
#[tokio::test(start_paused = true)]
async fn a_hold_that_a_dropped_request_left_is_renewed() {
    let (locks, _, clock) = client();
    let guard = warm(&locks).acquire().await.unwrap();
    let next = polled(warm(&locks).acquire());
    guard.release().await.unwrap();
    drop(next);
    let guard = warm(&locks).acquire().await.unwrap();
    assert_eq!(locks.metrics().attempts, 1);
    clock.sleep(TTL * 2).await;
    guard.check().unwrap();
}

/// The recall arrives before the grant's answer.
#[tokio::test(start_paused = true)]
async fn an_early_recall_is_remembered() {
    let (locks, faulty, other, memory, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DelayAnswer(millis(100))]);
    let request = polled(warm(&locks).acquire());
    clock.sleep(millis(10)).await;
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    request.await.unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_early_recall_hides_no_early_loss() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DelayAnswer(millis(100))]);
    let request = polled(warm(&locks).acquire());
    clock.sleep(millis(10)).await;
    let token = faulty.calls(Op::Acquire)[0].token;
    for event in [Event::Recall(token), Event::Lost(token, Reason::Broken)] {
        faulty.send_event(&event);
        settle_down().await;
    }
    let guard = request.await.unwrap();
    assert_eq!(guard.signal().state(), HoldState::Lost(Reason::Broken));
}

/// The renewal's check comes after the end of the warm time.
#[tokio::test(start_paused = true)]
async fn a_renewal_while_the_hold_is_used_delays_no_end() {
    let (locks, memory, clock) = client();
    let kept = millis(500);
    let warm = |kept| locks.mutex("x").keep_warm(kept).acquire();
    warm(kept).await.unwrap().release().await.unwrap();
    let guard = warm(kept).await.unwrap();
    guard.renew().await.unwrap();
    guard.release().await.unwrap();
    clock.sleep(kept + millis(10)).await;
    assert!(memory.is_empty());
    warm(kept * 4).await.unwrap().release().await.unwrap();
    warm(kept).await.unwrap().release().await.unwrap();
    clock.sleep(kept + millis(10)).await;
    assert!(memory.is_empty());
}

#[test]
fn a_runtimes_end_ends_warm_holds() {
    let (there, locks, _) = two_clients_elsewhere(secs(10));
    let here = runtime();
    here.block_on(warm(&locks).acquire()).map(drop).unwrap();
    assert_eq!(locks.metrics().held, 1);
    there.shutdown_timeout(secs(1));
    assert_eq!(locks.metrics().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_the_client_releases_its_warm_hold() {
    let (locks, faulty, ..) = troubled();
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    let reader = locks.read("x").try_acquire().await.unwrap();
    assert!(reader.is_some());
    assert_eq!(faulty.calls(Op::Acquire).len(), 2);
    reader.unwrap().release().await.unwrap();
    assert!(warm(&locks).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_prevents_a_warm_hold() {
    let (locks, memory, _) = client();
    let guard = warm(&locks).acquire().await.unwrap();
    let token = guard.token();
    let next = polled(locks.mutex("x").acquire());
    let limited = polled(locks.mutex("x").max_hold(TTL).acquire());
    guard.release().await.unwrap();
    let next = next.await.unwrap();
    assert_eq!(next.token(), token);
    next.release().await.unwrap();
    limited.await.unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_request_decides_whether_the_hold_is_kept() {
    let (locks, memory, _) = client();
    for is_warm in [false, true] {
        let guard = warm(&locks).acquire().await.unwrap();
        let between = polled(locks.mutex("x").acquire());
        let last = polled(if is_warm { warm(&locks) } else { locks.mutex("x") }.acquire());
        guard.release().await.unwrap();
        between.await.unwrap().release().await.unwrap();
        last.await.unwrap().release().await.unwrap();
        assert_ne!(memory.is_empty(), is_warm);
    }
}

/// The server sends no recall for a hold that a plain request acquired.
#[tokio::test(start_paused = true)]
async fn a_hold_of_a_plain_request_is_not_kept_warm() {
    let (locks, memory, _) = client();
    let first = locks.mutex("x").acquire().await.unwrap();
    let second = polled(locks.mutex("x").acquire());
    let third = polled(warm(&locks).acquire());
    first.release().await.unwrap();
    let second = second.await.unwrap();
    let token = second.token();
    second.release().await.unwrap();
    let third = third.await.unwrap();
    assert_eq!(third.token(), token);
    third.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_fences_ends_the_hold() {
    let memory = Memory::new();
    let locks = Locks::builder(memory).local_turns(3).build().unwrap();
    let mut tokens = Vec::new();
    for _ in 0..6 {
        let guard = warm(&locks).acquire().await.unwrap();
        tokens.push(guard.token());
        guard.release().await.unwrap();
    }
    assert_eq!(tokens[0], tokens[2]);
    assert_ne!(tokens[2], tokens[3]);
    assert_eq!(tokens[3], tokens[5]);
}

#[tokio::test(start_paused = true)]
async fn close_releases_warm_holds() {
    let (locks, memory, _) = client();
    let used = warm(&locks).acquire().await.unwrap();
    locks.mutex("y").keep_warm(KEPT).acquire().await.unwrap().release().await.unwrap();
    locks.close().await;
    assert_eq!(memory.len(), 1);
    used.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn warm_holds_of_a_dropped_client_end_at_their_time() {
    let (locks, memory, clock) = client();
    warm(&locks).acquire().await.unwrap().release().await.unwrap();
    drop(locks);
    clock.sleep(KEPT + millis(10)).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_client_may_keep_all_locks_warm() {
    let memory = Memory::new();
    let locks = Locks::builder(memory.clone()).keep_warm(KEPT).build().unwrap();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let token = guard.token();
    drop(guard);
    assert_eq!(locks.mutex("x").acquire().await.unwrap().token(), token);
    for request in [locks.mutex("y").fixed(), locks.mutex("y").max_hold(TTL)] {
        request.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(memory.len(), 1, "only x is warm");
    }
    locks.read("y").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(memory.len(), 1, "only x is warm");
}

#[tokio::test(start_paused = true)]
async fn a_backend_without_recalls_rejects_keep_warm() {
    let (locks, faulty, ..) = troubled_with(|profile| profile.recalls = false);
    fails(warm(&locks).acquire(), ErrorKind::Unsupported).await;
    let error = Locks::builder(faulty).keep_warm(KEPT).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let (locks, ..) = client();
    let zero = locks.mutex("x").keep_warm(Duration::ZERO);
    fails(zero.acquire(), ErrorKind::InvalidInput).await;
}

/// Otherwise, the renewal task would check the hold again and again, and occupy its thread.
#[test]
fn an_unanswered_release_of_a_recalled_hold_leaves_the_runtime_free() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    let _inside = runtime.enter();
    let faulty = faulty_memory(&Memory::new(), &Clock::boot());
    let locks = Locks::builder(faulty.clone()).ttl(secs(60)).build().unwrap();
    let kept = millis(50);
    let guard = runtime.block_on(locks.mutex("x").keep_warm(kept).acquire()).unwrap();
    let recall = Event::Recall(guard.token());
    faulty.always(Op::Release, Fate::Hang);
    faulty.send_event(&recall);
    runtime.spawn(guard.release());
    runtime.block_on(faulty.called(Op::Release, 1));
    // The client checks the hold, at once and when it would no longer be warm.
    faulty.send_event(&recall);
    std::thread::sleep(kept * 2);
    let (done, is_done) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        tokio::time::sleep(millis(20)).await;
        done.send(()).unwrap();
    });
    let answer = is_done.recv_timeout(secs(20));
    runtime.shutdown_background();
    answer.expect("the runtime is free");
}
