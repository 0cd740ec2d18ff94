use std::sync::atomic::{AtomicU32, Ordering};

use lockwright_core::{BreakMode, BreakTarget, ErrorKind, Event, HoldState, Reason};

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, client, millis, poll_once, polled, secs, settle_down, troubled,
};

#[tokio::test(start_paused = true)]
async fn a_risk_is_reported_before_the_loss_and_both_before_the_deadline() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let start = clock.now();
    faulty.always(Op::Renew, UNAVAILABLE);
    let mut signal = guard.signal();
    assert_eq!(signal.changed().await, HoldState::AtRisk);
    let half = (guard.deadline().saturating_since(start)) / 2;
    let at = clock.now().saturating_since(start);
    assert!(at >= half && at <= half + millis(5), "{at:?} of {half:?}");
    guard.check().unwrap();
    assert_eq!(signal.changed().await, HoldState::Lost(Reason::Unreachable));
    assert!(clock.now() >= guard.lost_at() && clock.now() < guard.deadline() - millis(900));
    assert_eq!((locks.metrics().at_risk, locks.metrics().lost), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn every_poll_of_run_looks_at_the_clock_first() {
    let (locks, _, clock) = client();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let polls = AtomicU32::new(0);
    let mut running = polled(guard.run(std::future::poll_fn(|_| {
        polls.fetch_add(1, Ordering::SeqCst);
        std::task::Poll::<()>::Pending
    })));
    // The clock jumps past the deadline without firing a timer, as after a suspend.
    clock.jump(TTL);
    let error = poll_once(&mut running).unwrap().unwrap_err();
    assert_eq!(polls.load(Ordering::SeqCst), 1);
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Expired));
}

#[tokio::test(start_paused = true)]
async fn run_returns_only_the_output_of_a_future_that_ends_in_time() {
    let (locks, _, clock) = client();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let in_time = async {
        clock.sleep(TTL * 5).await;
        7
    };
    assert_eq!(guard.run(in_time).await.unwrap(), 7);
    let error = guard.run(async { clock.jump(TTL) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Expired));
}

#[tokio::test(start_paused = true)]
async fn backend_events_take_effect_immediately() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.always(Op::Renew, UNAVAILABLE);
    faulty.send_event(&Event::AtRisk(guard.token()));
    settle_down().await;
    assert_eq!(guard.signal().state(), HoldState::AtRisk);
    assert_eq!(faulty.calls(Op::Renew).len(), 1, "it is renewed at once");
    faulty.send_event(&Event::Lost(guard.token(), Reason::SessionEnded));
    let before = clock.now();
    assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::SessionEnded));
    assert_eq!(clock.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_released_before_its_user_had_the_time_to_stop() {
    let (locks, faulty, other, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.send_event(&Event::Lost(guard.token(), Reason::SessionEnded));
    settle_down().await;
    assert!(guard.check().is_err());
    clock.sleep_until(guard.deadline() - millis(1)).await;
    assert!(faulty.calls(Op::Release).is_empty());
    clock.sleep(millis(10)).await;
    assert_eq!(faulty.calls(Op::Release).len(), 1);
    other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    drop(guard);
    locks.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_overtaken_by_the_release_is_not_a_loss() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let signal = guard.signal();
    faulty.next(Op::Renew, [Fate::Slow(secs(1))]);
    while faulty.calls(Op::Renew).is_empty() {
        clock.sleep(millis(10)).await;
    }
    guard.release().await.unwrap();
    clock.sleep(secs(2)).await;
    assert_eq!(signal.state(), HoldState::Released);
    assert_eq!(locks.metrics().lost, 0);
}

#[tokio::test(start_paused = true)]
async fn every_reason_reaches_the_holder() {
    let (locks, faulty, ..) = troubled();
    for reason in [
        Reason::Expired,
        Reason::Broken,
        Reason::Unreachable,
        Reason::Gone,
        Reason::SessionEnded,
        Reason::HeldTooLong,
        Reason::Superseded,
    ] {
        let guard = locks.mutex("x").acquire().await.unwrap();
        faulty.send_event(&Event::Lost(guard.token(), reason));
        faulty.send_event(&Event::Lost(guard.token(), Reason::Unreachable));
        // On this runtime's single thread, no task runs between the event and the check.
        assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost(reason));
        let _lost = guard.release().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_that_is_being_released_counts_for_no_other() {
    let (locks, faulty, _, _, clock) = troubled();
    let live = locks.mutex("live").acquire().await.unwrap();
    let lost = locks.mutex("lost").fixed().acquire().await.unwrap();
    clock.sleep(TTL * 2).await;
    settle_down().await;
    faulty.next(Op::Release, [Fate::DelayAnswer(millis(500))]);
    let releasing = polled(lost.release());
    assert_eq!((locks.metrics().held, locks.metrics().releasing), (1, 1));
    let _lost = releasing.await;
    assert_eq!((locks.metrics().held, locks.metrics().releasing), (1, 0));
    live.release().await.unwrap();
    assert_eq!((locks.metrics().held, locks.metrics().releasing), (0, 0));
    let counted = locks.metrics();
    assert_eq!((counted.acquired, counted.released, counted.lost), (2, 1, 1));
}

/// Another client breaks the hold before the acquire is answered, so the loss event arrives first.
#[tokio::test(start_paused = true)]
async fn loss_before_the_answer_of_the_acquire_is_reported() {
    for fixed in [false, true] {
        let (locks, faulty, other, _, clock) = troubled();
        faulty.next(Op::Acquire, [Fate::DelayAnswer(millis(500))]);
        let request = locks.mutex("x");
        let request = if fixed { request.fixed() } else { request };
        let asking = tokio::spawn(request.acquire());
        clock.sleep(millis(100)).await;
        let target = BreakTarget::Token(faulty.calls(Op::Acquire)[0].token);
        other.break_lock("x", target, BreakMode::Now, "to see").await.unwrap();
        let second = other.mutex("x").try_acquire().await.unwrap().expect("it is free");
        let first = asking.await.unwrap().unwrap();
        assert_eq!(first.signal().state(), HoldState::Lost(Reason::Broken), "fixed: {fixed}");
        second.release().await.unwrap();
    }
}
