use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::{
    BreakMode, BreakTarget, Error, ErrorKind, Locks, PrefixOptions, Reason, Step, Token,
    TokenSource,
};

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, another_client, client, fails, faulty_memory, millis, poll_once,
    polled, secs, troubled, troubled_with,
};

#[tokio::test(start_paused = true)]
async fn retries_are_as_many_as_asked_for() {
    let (locks, faulty, other, _, clock) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let start = clock.now();
    fails(locks.mutex("x").retry(4, secs(1)).acquire(), ErrorKind::TimedOut(Step::Holder)).await;
    assert_eq!(faulty.calls(Op::Acquire).len(), 4);
    let took = clock.now().saturating_since(start);
    assert!(took >= millis(3 * 750) && took <= millis(3 * 1_260), "{took:?}");
    held.release().await.unwrap();
    faulty.next(Op::Acquire, [UNAVAILABLE]);
    let held = locks.mutex("x").retry(2, secs(1)).acquire().await.unwrap();
    let again = locks.mutex("x").retry(2, secs(1)).acquire();
    fails(again, ErrorKind::TimedOut(Step::LocalTurn)).await;
    held.release().await.unwrap();
    fails(locks.mutex("x").retry(0, secs(1)).acquire(), ErrorKind::InvalidInput).await;
}

#[tokio::test(start_paused = true)]
async fn limit_of_zero_is_one_try() {
    let (locks, faulty, other, _, clock) = troubled();
    let begun = clock.now();
    faulty.next(Op::Acquire, [Fate::Slow(secs(3)), Fate::Pass, Fate::Pass, UNAVAILABLE]);
    let guard = locks.mutex("x").wait_for(millis(0)).acquire().await.unwrap();
    assert_eq!(clock.now(), begun + secs(3), "its answer is waited for");
    guard.release().await.unwrap();
    let both = locks.multi(["x", "y"]).wait_for(millis(0)).acquire().await.unwrap();
    both.release().await.unwrap();
    let tries = faulty.calls(Op::Acquire).len();
    fails(locks.mutex("x").wait_for(millis(0)).acquire(), ErrorKind::Unavailable).await;
    let held = other.mutex("x").acquire().await.unwrap();
    let begun = clock.now();
    fails(locks.mutex("x").wait_for(millis(0)).acquire(), ErrorKind::TimedOut(Step::Holder)).await;
    assert_eq!(faulty.calls(Op::Acquire).len(), tries + 2);
    fails(locks.multi(["w", "x"]).wait_for(millis(0)).acquire(), ErrorKind::TimedOut(Step::Holder))
        .await;
    assert_eq!(clock.now(), begun);
    assert_eq!(locks.metrics().timed_out, 2);
    held.release().await.unwrap();
    faulty.next(Op::Acquire, [Fate::Slow(secs(3))]);
    let begun = clock.now();
    fails(locks.mutex("x").wait_for(millis(1)).acquire(), ErrorKind::TimedOut(Step::Answer)).await;
    assert!(clock.now() <= begun + millis(3));
}

#[tokio::test(start_paused = true)]
async fn timed_out_request_reports_the_first_obstacle() {
    for limit in [None, Some(TTL * 2)] {
        let (locks, faulty, ..) = troubled();
        let lost = ErrorKind::Lost(Reason::Expired);
        faulty.next(Op::Acquire, [UNAVAILABLE; 2]);
        faulty.always(Op::Acquire, Fate::Refuse(lost));
        let request = locks.mutex("x");
        let error = match limit {
            None => request.acquire().await.unwrap_err(),
            Some(limit) => request.wait_for(limit).acquire().await.unwrap_err(),
        };
        match limit {
            None => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().ends_with("refused (tried for 10s)"), "{error}");
            }
            Some(_) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut(Step::Answer), "{error}");
                let cause = std::error::Error::source(&error).unwrap().downcast_ref::<Error>();
                assert_eq!(cause.unwrap().kind(), ErrorKind::Unavailable, "{error:?}");
            }
        }
        let tokens = |op| {
            let calls = faulty.calls(op);
            calls.iter().map(|call| call.token).collect::<std::collections::HashSet<_>>().len()
        };
        assert!(tokens(Op::Acquire) > 10, "a lost token is asked for again");
        assert!(tokens(Op::Release) > 10, "the server may keep a record of a lost token");
    }
}

#[tokio::test(start_paused = true)]
async fn no_pause_is_too_long_to_be_reckoned_with() {
    let (locks, _, other, _, _) = troubled();
    let _held = other.mutex("x").acquire().await.unwrap();
    let acquire = locks.mutex("x").retry(3, Duration::MAX).acquire();
    assert!(tokio::time::timeout(secs(3_600), acquire).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn operator_texts_must_be_printable() {
    let (locks, memory, _) = client();
    for label in ["a\nb", "\u{1b}[31m", &"x".repeat(129)] {
        let error = Locks::builder(memory.clone()).label(label).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{label:?}");
    }
    for reason in ["a\nb", &"x".repeat(513)] {
        let error =
            locks.break_lock("x", BreakTarget::Any, BreakMode::Now, reason).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_on_the_server_and_nowhere_else() {
    let (_, memory, clock) = client();
    let plain = another_client(&memory, &clock);
    let shop = Locks::builder(memory).namespace("shop/").clock(clock).label("billing");
    let shop = shop.build().unwrap();
    let guard = shop.mutex("orders").acquire().await.unwrap();
    assert_eq!(shop.list("ord").await.unwrap()[0].name.as_str(), "orders");
    assert!(plain.mutex("shop/orders").try_acquire().await.unwrap().is_none());
    let shown = plain.list("").await.unwrap().remove(0);
    assert_eq!(shown.name.as_str(), "shop/orders");
    assert_eq!(shown.holders[0].identity.as_ref().unwrap().label.as_deref(), Some("billing"));
    let error = shop.mutex("orders").wait_for(millis(10)).acquire().await.unwrap_err();
    assert_eq!(error.name().unwrap().as_str(), "orders");
    assert!(guard.verify().await.unwrap());
    guard.release().await.unwrap();
    fails(shop.mutex("x".repeat(510)).acquire(), ErrorKind::InvalidInput).await;
}

#[tokio::test(start_paused = true)]
async fn metrics_add_up() {
    let (locks, memory, clock) = client();
    let other = another_client(&memory, &clock);
    let guard = locks.mutex("x").acquire().await.unwrap();
    assert!(other.mutex("x").wait_for(secs(2)).acquire().await.is_err());
    clock.sleep(secs(5)).await;
    assert_eq!(locks.metrics().held, 1);
    guard.release().await.unwrap();
    let metrics = locks.metrics();
    assert_eq!((metrics.acquired, metrics.released, metrics.held), (1, 1, 0));
    assert!(metrics.hold_time >= secs(7), "{:?}", metrics.hold_time);
    assert_eq!(other.metrics().timed_out, 1);
    assert_eq!(other.metrics().waited, 1);
}

#[tokio::test(start_paused = true)]
async fn a_last_try_that_comes_too_late_counts_as_timed_out() {
    let (locks, faulty, ..) = troubled();
    faulty.next(Op::Acquire, [Fate::StartBefore(TTL * 2)]);
    let error = locks.mutex("x").retry(1, millis(10)).acquire().await.unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    assert_eq!(locks.metrics().timed_out, 1);
}

#[tokio::test(start_paused = true)]
async fn longest_prefix_has_the_default_options() {
    let (other, memory, clock) = client();
    let options = |ttl, wait| PrefixOptions { ttl: Some(ttl), wait, keep_warm: None };
    let builder = Locks::builder(memory).ttl(TTL).clock(clock.clone()).namespace("shop/");
    let builder = builder.prefix("jobs/", options(secs(20), Some(secs(3))));
    let locks = builder.prefix("jobs/nightly/", options(secs(30), None)).build().unwrap();
    for (name, ttl) in
        [("a", 10), ("jobs", 10), ("jobs/a", 20), ("jobs/z", 20), ("jobs/nightly/a", 30)]
    {
        let guard = locks.mutex(name).acquire().await.unwrap();
        let seen = locks.inspect(name).await.unwrap();
        assert_eq!(seen.holders[0].remaining, Some(secs(ttl)), "{name}");
        guard.release().await.unwrap();
    }
    let _held = other.mutex("shop/jobs/x").acquire().await.unwrap();
    let since = clock.now();
    fails(locks.mutex("jobs/x").acquire(), ErrorKind::TimedOut(Step::Holder)).await;
    assert_eq!(clock.now().saturating_since(since), secs(3));
    let multi = fails(locks.multi(["a", "jobs/x"]).acquire(), ErrorKind::TimedOut(Step::Holder));
    tokio::time::timeout(TTL, multi).await.expect("the limit of one name is the limit of all");
    assert_eq!(clock.now().saturating_since(since), secs(6));
}

#[tokio::test(start_paused = true)]
async fn no_backend_makes_a_ttl_of_months() {
    let (_, memory, clock) = client();
    let faulty = faulty_memory(&memory, &clock)
        .with_profile(|profile| profile.ttl = millis(10)..=secs(400 * 86_400));
    let builder = Locks::builder(faulty).clock(clock).ttl(secs(60 * 86_400));
    assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::InvalidConfig);
    let months = PrefixOptions { ttl: Some(secs(60 * 86_400)), ..Default::default() };
    let builder = Locks::builder(memory).prefix("jobs/", months);
    assert!(builder.build().unwrap_err().to_string().contains("prefix \"jobs/\""));
}

/// After an error, the next request must not block: its answer ends the trouble, and a blocked
/// request's answer may take hours.
#[tokio::test(start_paused = true)]
async fn one_error_of_a_blocked_request_is_no_trouble_once_the_server_answers() {
    let (locks, faulty, other, _, clock) = troubled_with(|profile| profile.blocks = true);
    let held = other.mutex("x").acquire().await.unwrap();
    // The fates of a try, a blocked request, a try, and a blocked request.
    let long = Fate::Slow(TTL * 5);
    faulty.next(Op::Acquire, [Fate::Pass, UNAVAILABLE, Fate::Pass, long]);
    let waiting = tokio::spawn(locks.mutex("x").acquire());
    clock.sleep(secs(1)).await;
    let mut second = polled(locks.mutex("x").acquire());
    let waits: Vec<bool> = faulty.calls(Op::Acquire).iter().map(|call| call.waits).collect();
    assert_eq!(waits, [false, true, false, true]);
    clock.sleep(TTL * 3).await;
    assert!(poll_once(&mut second).is_none());
    assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_release_of_a_late_grant_ends_at_the_limit() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.always(Op::Acquire, Fate::StartBefore(TTL));
    faulty.always(Op::Release, Fate::Hang);
    let start = clock.now();
    let request = locks.mutex("x").wait_for(secs(1)).acquire();
    fails(request, ErrorKind::TimedOut(Step::Answer)).await;
    assert!(clock.now().saturating_since(start) < secs(1) + millis(5));
}

#[tokio::test(start_paused = true)]
async fn rejection_after_an_unanswered_attempt_is_indeterminate() {
    let (locks, faulty, _, _, _) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseAnswer]);
    faulty.always(Op::Acquire, UNAVAILABLE);
    fails(locks.mutex("x").acquire(), ErrorKind::Indeterminate).await;
    faulty.next(Op::Acquire, [Fate::LoseAnswer, Fate::Refuse(ErrorKind::Denied)]);
    fails(locks.mutex("y").acquire(), ErrorKind::Indeterminate).await;
    faulty.next(Op::Acquire, [Fate::LoseRequest]);
    faulty.always(Op::Release, Fate::Hang);
    fails(locks.mutex("z").retry(2, millis(10)).acquire(), ErrorKind::Indeterminate).await;
    fails(locks.mutex("w").acquire(), ErrorKind::Unavailable).await;
}

#[tokio::test]
async fn retries_without_a_pause_let_others_go_on() {
    let (locks, _, _) = client();
    let held = locks.mutex("x").acquire().await.unwrap();
    let retrying = tokio::spawn(locks.mutex("x").retry(u32::MAX, Duration::ZERO).acquire());
    tokio::task::yield_now().await;
    held.release().await.unwrap();
    retrying.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_token_source_fails_only_its_request() {
    let is_first = AtomicBool::new(true);
    let source = move || {
        assert!(!is_first.swap(false, Ordering::SeqCst), "the first token");
        Token::random()
    };
    let (_, memory, clock) = client();
    let locks = Locks::builder(memory).tokens(TokenSource::from_fn(source)).clock(clock);
    let locks = locks.build().unwrap();
    let failing = tokio::spawn(locks.mutex("x").acquire());
    assert!(failing.await.is_err_and(|error| error.is_panic()));
    locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
}
