//! Tests of deadlines: see `lockwright_core::validity`.

use std::time::Duration;

use lockwright_core::validity::Rules;
use lockwright_core::{BootInstant, ErrorKind, Event, Fence, Granted, Locks, Reason, Step, Token};

use crate::support::{
    Fate, Faulty, Op, TTL, client, fails, millis, secs, settle_down, troubled, troubled_with,
};

#[tokio::test(start_paused = true)]
async fn a_deadline_is_anchored_at_the_send_and_not_at_the_reply() {
    for (fate, started_before, ttl) in [
        (Fate::DelayAnswer(secs(4)), secs(0), TTL),
        (Fate::Valid(secs(4)), secs(0), secs(4)),
        (Fate::Valid(secs(400)), secs(0), TTL),
        (Fate::StartBefore(secs(3)), secs(3), TTL),
        (Fate::StartAfter(secs(3)), secs(0), TTL),
    ] {
        let (locks, faulty, _, _, clock) = troubled();
        faulty.next(Op::Acquire, [fate]);
        let start = clock.now() - started_before;
        let guard = locks.mutex("x").acquire().await.unwrap();
        let rules = Rules::default();
        assert_eq!(guard.deadline(), start + rules.validity(ttl), "{fate:?}");
        assert_eq!(guard.lost_at(), guard.deadline() - rules.margin(ttl), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_anchored_at_its_send_too() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Renew, [Fate::DelayAnswer(secs(1))]);
    let mut signal = guard.signal();
    signal.changed().await;
    let sent = faulty.calls(Op::Renew)[0].at;
    assert!(clock.now() >= sent + secs(1));
    assert_eq!(guard.deadline(), sent + Rules::default().validity(TTL));
    let sent = clock.now();
    faulty.next(Op::Renew, [Fate::DelayAnswer(secs(1))]);
    guard.renew().await.unwrap();
    assert_eq!(guard.deadline(), sent + Rules::default().validity(TTL));
}

#[tokio::test(start_paused = true)]
async fn drift_and_margin_are_as_set() {
    let (_, memory, clock) = client();
    let rules = Rules {
        drift_rate: 0.1,
        drift_floor: millis(500),
        margin_rate: 0.2,
        margin_limit: secs(60),
    };
    let locks = Locks::builder(memory).ttl(TTL).clock(clock.clone()).rules(rules).build().unwrap();
    let now = clock.now();
    let guard = locks.mutex("x").acquire().await.unwrap();
    assert_eq!(guard.deadline(), now + millis(8_500));
    assert_eq!(guard.lost_at(), now + millis(6_500));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_own_deadline_is_released_and_tried_again() {
    let (locks, faulty, other, _, _) = troubled();
    // The client waits less than 9 s for an answer, so the test moves the start of the grant back.
    faulty.next(Op::Acquire, [Fate::StartBefore(secs(9))]);
    let guard = locks.mutex("x").acquire().await.unwrap();
    let calls = faulty.calls(Op::Acquire);
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].token, calls[1].token, "a token that was released isn't used again");
    assert_eq!(faulty.calls(Op::Release)[0].token, calls[0].token);
    assert_eq!(guard.token(), calls[1].token);
    assert_eq!(guard.deadline(), calls[1].at + Rules::default().validity(TTL));
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(locks.metrics().grants_too_late, 1);
}

#[tokio::test(start_paused = true)]
async fn a_try_ends_with_a_grant_that_comes_too_late() {
    let (locks, faulty, _, memory, _) = troubled();
    faulty.next(Op::Acquire, [Fate::StartBefore(secs(9))]);
    fails(locks.mutex("x").try_acquire(), ErrorKind::TimedOut(Step::Answer)).await;
    assert_eq!(faulty.calls(Op::Acquire).len(), 1);
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_which_nothing_is_left_is_refused() {
    let (_, memory, clock) = client();
    let rules = Rules { drift_floor: secs(1), ..Rules::default() };
    let locks = Locks::builder(memory.clone()).ttl(TTL).clock(clock).rules(rules).build().unwrap();
    for ttl in [millis(500), secs(1), millis(1_100)] {
        let error = locks.mutex("x").ttl(ttl).try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{ttl:?}");
        let error = Locks::builder(memory.clone()).ttl(ttl).rules(rules).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{ttl:?}");
    }
    locks.mutex("x").ttl(secs(2)).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_could_be_of_no_use_is_not_waited_for() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DoAndHang]);
    let start = clock.now();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let waited = clock.now().saturating_since(start);
    assert!(waited < TTL, "{waited:?}");
    let calls = faulty.calls(Op::Acquire);
    assert_eq!(calls[0].token, calls[1].token);
    assert_eq!(guard.deadline(), calls[1].at + Rules::default().validity(TTL));
}

#[tokio::test(start_paused = true)]
async fn check_is_exact_also_when_no_timer_noticed() {
    let (locks, _, clock) = client();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let unchecked = locks.mutex("y").acquire().await.unwrap();
    let left = guard.remaining();
    clock.jump(left - Duration::from_nanos(1));
    guard.check().unwrap();
    clock.jump(Duration::from_nanos(1));
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost(Reason::Expired));
    assert_eq!(guard.remaining(), Duration::ZERO);
    fails(unchecked.release(), ErrorKind::Lost(Reason::Expired)).await;
}

#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_within_a_slice_of_the_timers() {
    let (locks, _, clock) = client();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let signal = guard.signal();
    let told = tokio::spawn(async move { signal.ended().await });
    settle_down().await;
    clock.jump(TTL);
    let timers = tokio::time::Instant::now();
    assert!(!told.await.unwrap().is_live());
    assert!(timers.elapsed() <= secs(1) + millis(2), "{:?}", timers.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_backend_limits_only_the_first_wait_of_a_request() {
    let (locks, faulty, _, _, clock) =
        troubled_with(|profile| profile.answer_limit = Some(secs(3)));
    let acquire = |name, limit| locks.mutex(name).wait_for(limit).acquire();
    faulty.next(Op::Acquire, [Fate::Hang, Fate::HangAfter(secs(3)), Fate::Hang]);
    for (name, limit) in [("x", secs(2)), ("y", secs(4))] {
        let begun = clock.now();
        fails(acquire(name, limit), ErrorKind::TimedOut(Step::Answer)).await;
        assert_eq!(clock.now(), begun + limit);
    }
    // The profile promises an answer within 3 s, so the client sets no timer for a request's first
    // wait. This backend breaks the promise, so the request never ends.
    let waiting = tokio::spawn(acquire("z", secs(4)));
    clock.sleep(secs(60)).await;
    assert!(!waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_answered_after_the_term_does_not_revive_the_hold() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Renew, [Fate::DelayAnswer(millis(100))]);
    while faulty.calls(Op::Renew).is_empty() {
        clock.sleep(millis(10)).await;
    }
    // Before the renewal's answer, a call of `check` would end the hold.
    clock.jump(guard.remaining() + millis(10));
    clock.sleep(millis(200)).await;
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost(Reason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_answered_after_a_loss_does_not_move_the_deadline() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let deadline = guard.deadline();
    faulty.next(Op::Renew, [Fate::DelayAnswer(millis(100))]);
    faulty.called(Op::Renew, 1).await;
    faulty.send_event(&Event::Lost(guard.token(), Reason::Broken));
    clock.sleep(millis(200)).await;
    assert_eq!(locks.metrics().renewals, 1);
    assert_eq!(guard.deadline(), deadline);
}

fn offer(faulty: &Faulty, token: Token, start: BootInstant) {
    let mut granted = Granted::new(Fence::new(u64::MAX >> 1));
    granted.start = Some(start);
    faulty.send_event(&Event::Handed(token, granted));
}

#[tokio::test(start_paused = true)]
async fn an_offer_is_anchored_at_its_start() {
    let (locks, faulty, other, _, clock) = troubled();
    let _held = other.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("x").acquire());
    settle_down().await;
    let start = clock.now();
    clock.sleep(millis(100)).await;
    offer(&faulty, faulty.calls(Op::Acquire)[0].token, start);
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.deadline(), start + Rules::default().validity(TTL));
}

#[tokio::test(start_paused = true)]
async fn an_offer_to_an_ended_claim_is_not_used_for_the_next() {
    let (locks, faulty, other, _, clock) = troubled();
    let _held = other.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Acquire, [Fate::Pass, Fate::Refuse(ErrorKind::Lost(Reason::Gone))]);
    let waiting = tokio::spawn(locks.mutex("x").acquire());
    faulty.called(Op::Acquire, 3).await;
    settle_down().await;
    let calls = faulty.calls(Op::Acquire);
    assert_ne!(calls[2].token, calls[0].token);
    offer(&faulty, calls[0].token, clock.now());
    settle_down().await;
    assert!(!waiting.is_finished());
}
