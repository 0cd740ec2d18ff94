use std::pin::Pin;
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, ErrorKind, Event, Guard, HoldState, Locks, Owner, Reason, Request,
    Result,
};
use lockwright_memory::Memory;

use crate::support::{
    Fate, Faulty, Op, TTL, client, fails, millis, poll_once, polled, settle_down, troubled,
};

type Waiting = Pin<Box<dyn Future<Output = Result<Guard>>>>;

/// Returns the guard of a hold that can be handed over, and `waiting` queued requests.
async fn chain(locks: &Locks, waiting: usize) -> (Guard, Vec<Waiting>) {
    // The first request has no other behind it, so its hold can't be handed over.
    let first = locks.mutex("x").acquire().await.unwrap();
    let second = polled(locks.mutex("x").acquire());
    let mut queued: Vec<Waiting> = Vec::new();
    for _ in 0..waiting {
        // Without a pause, tokio would let no more than 128 requests go on.
        tokio::task::yield_now().await;
        queued.push(polled(locks.mutex("x").acquire()));
    }
    first.release().await.unwrap();
    (second.await.unwrap(), queued)
}

/// Releases each guard and polls the next request, until one isn't granted at once. Returns the
/// number of turns.
async fn turns(mut guard: Guard, waiting: Vec<Waiting>) -> usize {
    let mut turns = 1;
    let token = guard.token();
    for next in waiting {
        let before = guard.fence();
        guard.release().await.unwrap();
        guard = next.await.unwrap();
        assert!(guard.fence() > before);
        if guard.token() != token {
            break;
        }
        turns += 1;
    }
    turns
}

fn requests(faulty: &Faulty) -> usize {
    faulty.calls(Op::Acquire).len() + faulty.calls(Op::Release).len()
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_get_the_hold_without_the_server() {
    let (locks, faulty, other, memory, _) = troubled();
    let (second, mut waiting) = chain(&locks, 2).await;
    let before = requests(&faulty);
    let (token, fence) = (second.token(), second.fence());
    second.release().await.unwrap();
    let third = waiting.remove(0).await.unwrap();
    assert_eq!((third.token(), third.fence().get()), (token, fence.get() + 1));
    third.check().unwrap();
    drop(third);
    let fourth = waiting.remove(0).await.unwrap();
    assert_eq!((fourth.token(), fourth.fence().get()), (token, fence.get() + 2));
    assert_eq!(requests(&faulty), before);
    assert_eq!(fourth.fenced().fence, fourth.fence());
    let (fence, metrics) = (fourth.fence(), locks.metrics());
    fourth.release().await.unwrap();
    assert!(memory.is_empty());
    assert_eq!((metrics.acquired, metrics.handed_over, metrics.released), (4, 2, 3));
    assert_eq!(metrics.fences_reserved, 24, "8 for each of 3 requests");
    let next = other.mutex("x").acquire().await.unwrap();
    assert!(next.fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn a_hold_without_others_behind_it_reserves_one_fence() {
    let (locks, ..) = client();
    let (guard, _) = chain(&locks, 0).await;
    let next = polled(locks.mutex("x").acquire());
    assert!(!is_handed_over(guard, next).await);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_turns_is_limited() {
    let (locks, ..) = client();
    let (guard, waiting) = chain(&locks, 100).await;
    assert_eq!(turns(guard, waiting).await, 64);
}

#[tokio::test(start_paused = true)]
async fn the_hand_over_can_be_disabled() {
    let memory = Memory::new();
    let locks = Locks::builder(memory).local_turns(1).build().unwrap();
    let (guard, waiting) = chain(&locks, 10).await;
    assert_eq!(turns(guard, waiting).await, 1);
    assert_eq!(locks.metrics().handed_over, 0);
}

/// Fails without the shorter limit.
#[tokio::test(start_paused = true)]
async fn a_recall_shortens_the_chain() {
    let (locks, faulty, ..) = troubled();
    let (guard, waiting) = chain(&locks, 100).await;
    faulty.send_event(&Event::Recall(guard.token()));
    settle_down().await;
    assert_eq!(turns(guard, waiting).await, 8);
}

/// Fails without the shorter limit.
#[tokio::test(start_paused = true)]
async fn a_renewal_with_waiters_shortens_the_chain() {
    let (locks, _, other, _, clock) = troubled();
    let (guard, waiting) = chain(&locks, 100).await;
    let _waiting = polled(other.mutex("x").acquire());
    clock.sleep(TTL / 2).await;
    assert_eq!(turns(guard, waiting).await, 8);
}

/// Fails without the shorter limit.
#[tokio::test(start_paused = true)]
async fn a_name_that_was_recently_busy_has_a_shorter_chain() {
    let (locks, _, other, _, clock) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    assert!(locks.mutex("x").wait_for(millis(1)).acquire().await.is_err());
    held.release().await.unwrap();
    let (guard, waiting) = chain(&locks, 100).await;
    assert_eq!(turns(guard, waiting).await, 8);
    clock.sleep(TTL * 2).await;
    let (guard, waiting) = chain(&locks, 100).await;
    assert_eq!(turns(guard, waiting).await, 64);
}

#[tokio::test(start_paused = true)]
async fn a_chain_ends_after_one_ttl() {
    let (locks, _, clock) = client();
    let (mut guard, waiting) = chain(&locks, 60).await;
    let (token, begun) = (guard.token(), clock.now());
    for next in waiting {
        clock.sleep(TTL / 10).await;
        guard.release().await.unwrap();
        guard = next.await.unwrap();
        if guard.token() != token {
            break;
        }
    }
    assert_ne!(guard.token(), token);
    let lasted = clock.now().saturating_since(begun);
    assert!(lasted >= TTL && lasted < TTL + TTL / 10, "{lasted:?}");
}

/// Releases a chain's guard, and returns whether the next request got the hold.
async fn is_handed_over(guard: Guard, next: Waiting) -> bool {
    let token = guard.token();
    let _ = guard.release().await;
    let next = next.await.unwrap();
    let is_handed_over = next.token() == token;
    next.release().await.unwrap();
    is_handed_over
}

/// Returns whether a hold is handed over after `time`, while the server doesn't answer renewals.
async fn after_silence(time: Duration) -> bool {
    let (locks, faulty, _, _, clock) = troubled();
    let (guard, mut waiting) = chain(&locks, 2).await;
    faulty.always(Op::Renew, Fate::Hang);
    clock.sleep(time).await;
    assert_eq!(guard.signal().state(), HoldState::Held);
    is_handed_over(guard, waiting.remove(0)).await
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_less_than_half_of_its_ttl_is_not_handed_over() {
    assert!(after_silence(TTL * 48 / 100).await);
    // The first renewal is unanswered, and the hold isn't at risk yet.
    assert!(!after_silence(TTL * 492 / 1000).await);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_renewal_ends_the_chain() {
    let (locks, faulty, _, _, clock) = troubled();
    for (retried, is_continued) in [(false, false), (true, true)] {
        let (guard, mut waiting) = chain(&locks, 2).await;
        faulty.next(Op::Renew, [Fate::LoseAnswer]);
        clock.sleep(TTL / 3 + millis(1)).await;
        if retried {
            guard.renew().await.unwrap();
        }
        assert_eq!(guard.signal().state(), HoldState::Held);
        assert_eq!(is_handed_over(guard, waiting.remove(0)).await, is_continued);
    }
    let (guard, mut waiting) = chain(&locks, 2).await;
    faulty.next(Op::Renew, [Fate::LoseAnswer]);
    fails(guard.renew(), ErrorKind::Indeterminate).await;
    assert!(!is_handed_over(guard, waiting.remove(0)).await);
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_an_unanswered_claim_is_not_handed_over() {
    let (locks, faulty, ..) = troubled();
    let first = locks.mutex("x").acquire().await.unwrap();
    let second = polled(locks.mutex("x").acquire());
    let third: Waiting = polled(locks.mutex("x").acquire());
    let _fourth = polled(locks.mutex("x").acquire());
    first.release().await.unwrap();
    faulty.next(Op::Acquire, [Fate::LoseAnswer]);
    let second = second.await.unwrap();
    assert_eq!(locks.metrics().attempts_failed, 1);
    assert!(!is_handed_over(second, third).await);
}

#[tokio::test(start_paused = true)]
async fn a_hold_at_risk_is_not_handed_over() {
    let (locks, faulty, ..) = troubled();
    let (guard, mut waiting) = chain(&locks, 2).await;
    faulty.always(Op::Renew, Fate::Hang);
    faulty.send_event(&Event::AtRisk(guard.token()));
    assert!(!is_handed_over(guard, waiting.remove(0)).await);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_handed_over() {
    let (locks, faulty, ..) = troubled();
    let (guard, mut waiting) = chain(&locks, 2).await;
    faulty.send_event(&Event::Lost(guard.token(), Reason::SessionEnded));
    assert!(!is_handed_over(guard, waiting.remove(0)).await);
}

#[tokio::test(start_paused = true)]
async fn a_break_ends_the_chain_and_its_fences() {
    let (locks, _, other, _, _) = troubled();
    let (guard, mut waiting) = chain(&locks, 3).await;
    // Eight for each of the four requests.
    let block_end = guard.fence().get() + 32;
    guard.release().await.unwrap();
    let guard = waiting.remove(0).await.unwrap();
    let broken = BreakTarget::Token(guard.token());
    other.break_lock("x", broken, BreakMode::Now, "a test").await.unwrap();
    fails(guard.release(), ErrorKind::Lost(Reason::Broken)).await;
    let next = waiting.remove(0).await.unwrap();
    assert!(next.fence().get() >= block_end, "{} is below {block_end}", next.fence());
}

type Settings = fn(Request<Guard>) -> Request<Guard>;

fn reentrant(request: Request<Guard>) -> Request<Guard> {
    request.reentrant(&Owner::new())
}

/// Returns whether a hold of one request is handed over to another.
async fn passes(first: Settings, next: Settings) -> bool {
    let (locks, ..) = client();
    let held = locks.mutex("x").acquire().await.unwrap();
    let first = polled(first(locks.mutex("x")).acquire());
    let next = polled(next(locks.mutex("x")).acquire());
    held.release().await.unwrap();
    is_handed_over(first.await.unwrap(), next).await
}

#[tokio::test(start_paused = true)]
async fn only_plain_renewed_requests_of_one_ttl_follow_each_other() {
    assert!(passes(|it| it, |it| it).await);
    assert!(passes(|it| it, |it| it.wait_for(TTL)).await);
    assert!(!passes(|it| it, |it| it.ttl(TTL / 2)).await);
    assert!(!passes(|it| it, Request::fixed).await);
    assert!(!passes(Request::fixed, Request::fixed).await);
    assert!(!passes(|it| it, |it| it.max_hold(TTL)).await);
    assert!(!passes(|it| it.max_hold(TTL), |it| it).await);
    assert!(!passes(|it| it, |it| it.at_least(TTL)).await);
    assert!(!passes(|it| it.at_least(TTL), |it| it).await);
    assert!(!passes(|it| it, reentrant).await);
    assert!(!passes(reentrant, |it| it).await);
}

/// Returns whether a hold is handed over, if its claim has passed from a plain request to the next
/// one.
async fn passes_after_takeover(next: Settings) -> bool {
    let (locks, _, other, memory, _) = troubled();
    let held = locks.mutex("x").acquire().await.unwrap();
    let mut plain = polled(locks.mutex("x").acquire());
    let next = polled(next(locks.mutex("x")).acquire());
    let last = polled(locks.mutex("x").acquire());
    let taken = polled(other.mutex("x").acquire());
    held.release().await.unwrap();
    let taken = taken.await.unwrap();
    // The plain request's claim, with fences for all three, is queued on the server.
    assert!(poll_once(&mut plain).is_none());
    settle_down().await;
    drop(plain);
    taken.release().await.unwrap();
    let is_handed_over = is_handed_over(next.await.unwrap(), last).await;
    assert!(memory.is_empty());
    is_handed_over
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_passed_to_a_limited_or_reentrant_request_is_not_handed_over() {
    assert!(passes_after_takeover(|it| it).await);
    assert!(!passes_after_takeover(|it| it.max_hold(TTL)).await);
    assert!(!passes_after_takeover(|it| it.at_least(TTL)).await);
    assert!(!passes_after_takeover(reentrant).await);
}

#[tokio::test(start_paused = true)]
async fn a_leadership_is_not_handed_over() {
    let (locks, ..) = client();
    let campaign = || locks.election("x").campaign("a").acquire();
    let first = campaign().await.unwrap();
    let (second, third) = (polled(campaign()), polled(campaign()));
    first.resign().await.unwrap();
    let second = second.await.unwrap();
    let token = second.token();
    second.resign().await.unwrap();
    assert_ne!(third.await.unwrap().token(), token);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_passes_the_hold_on() {
    let (locks, memory, _) = client();
    let (guard, mut waiting) = chain(&locks, 3).await;
    let token = guard.token();
    drop(waiting.remove(0));
    guard.release().await.unwrap();
    // The hold has been sent to this request, which is dropped before it takes the hold.
    drop(waiting.remove(0));
    let last = waiting.remove(0).await.unwrap();
    assert_eq!(last.token(), token);
    last.check().unwrap();
    last.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_requests_were_all_dropped_is_released() {
    let (locks, memory, _) = client();
    let (guard, waiting) = chain(&locks, 3).await;
    drop(waiting);
    guard.release().await.unwrap();
    assert!(memory.is_empty());
}

/// Fails if the hold of a request that nobody polls is renewed, or if that request gets a lost
/// hold.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_polled_loses_the_hold_and_waits_again() {
    let (locks, _, other, memory, clock) = troubled();
    let (guard, mut waiting) = chain(&locks, 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    let begun = clock.now();
    let taken = other.mutex("x").acquire().await.unwrap();
    assert!(clock.now().saturating_since(begun) <= TTL);
    let mut unpolled = waiting.remove(0);
    assert!(poll_once(&mut unpolled).is_none());
    taken.release().await.unwrap();
    let guard = unpolled.await.unwrap();
    assert_ne!(guard.token(), token);
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_polled_late_gets_no_hold_at_risk() {
    let (locks, _, _, memory, clock) = troubled();
    let (guard, mut waiting) = chain(&locks, 1).await;
    let token = guard.token();
    guard.release().await.unwrap();
    clock.sleep(TTL * 6 / 10).await;
    let next = waiting.remove(0).await.unwrap();
    assert_ne!(next.token(), token);
    assert_eq!(locks.metrics().lost, 0);
    next.release().await.unwrap();
    clock.sleep(TTL).await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_about_its_own_turn() {
    let (locks, faulty, ..) = troubled();
    let (guard, mut waiting) = chain(&locks, 2).await;
    let signal = guard.signal();
    let mut ended = polled({
        let signal = signal.clone();
        async move { signal.ended().await }
    });
    assert!(poll_once(&mut ended).is_none());
    guard.release().await.unwrap();
    let next = waiting.remove(0).await.unwrap();
    assert_eq!(poll_once(&mut ended), Some(HoldState::Released));
    assert_eq!(next.signal().state(), HoldState::Held);
    faulty.send_event(&Event::Lost(next.token(), Reason::Gone));
    assert_eq!(next.signal().state(), HoldState::Lost(Reason::Gone));
    assert_eq!(signal.state(), HoldState::Released);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_extends_the_turn_that_follows() {
    let (locks, faulty, _, _, clock) = troubled();
    let (guard, mut waiting) = chain(&locks, 2).await;
    faulty.next(Op::Renew, [Fate::DelayAnswer(millis(500))]);
    clock.sleep(TTL / 3).await;
    assert_eq!(faulty.calls(Op::Renew).len(), 1, "a renewal is unanswered");
    let deadline = guard.deadline();
    guard.release().await.unwrap();
    let guard = waiting.remove(0).await.unwrap();
    assert_eq!(guard.deadline(), deadline);
    clock.sleep(millis(600)).await;
    assert!(guard.deadline() > deadline);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_hands_nothing_over() {
    let (locks, memory, _) = client();
    let (guard, waiting) = chain(&locks, 2).await;
    locks.close().await;
    guard.release().await.unwrap();
    for request in waiting {
        fails(request, ErrorKind::Closed).await;
    }
    assert!(memory.is_empty());
}
