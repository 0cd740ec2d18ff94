//! Locks that stay held after their release: `at_least` and `once_per`.

use std::time::Duration;

use lockwright_core::{
    BootInstant, BreakMode, BreakTarget, Clock, ErrorKind, Locks, Owner, Reason,
};

use crate::support::{
    Fate, Op, TTL, another_client, client, fails, millis, polled, secs, settle_down, troubled,
    troubled_with,
};

const KEPT: Duration = secs(60);

/// Checks that another client gets the lock at `instant`, or up to its polling interval later.
async fn expect_free_at(other: &Locks, clock: &Clock, instant: BootInstant) {
    let guard = other.mutex("x").acquire().await.unwrap();
    let (now, latest) = (clock.now(), instant + other.profile().slow_poll + millis(10));
    assert!(instant <= now && now <= latest, "free at {now:?}, not {instant:?}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lock_is_kept_after_its_release_without_its_client() {
    for time in [secs(2), KEPT] {
        for drops in [false, true] {
            let (locks, memory, clock) = client();
            let other = another_client(&memory, &clock);
            let (granted, guard) = (clock.now(), locks.mutex("x").at_least(time).acquire().await);
            clock.sleep(secs(1)).await;
            match drops {
                true => drop(guard.unwrap()),
                false => guard.unwrap().release().await.unwrap(),
            }
            assert_eq!(clock.now(), granted + secs(1), "it returns at once");
            locks.close().await;
            drop(locks);
            expect_free_at(&other, &clock, granted + time).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lock_is_free_after_at_least_has_passed() {
    let (locks, memory, clock) = client();
    let guard = locks.mutex("x").at_least(secs(5)).acquire().await.unwrap();
    clock.sleep(secs(5)).await;
    guard.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn period_begins_with_a_completed_release() {
    let (locks, memory, clock) = client();
    let other = another_client(&memory, &clock);
    let request = || locks.mutex("x").once_per(KEPT);
    let begun = clock.now();
    drop(request().acquire().await.unwrap());
    locks.mutex("y").acquire().await.unwrap().release().await.unwrap();
    settle_down().await;
    request().with(async |_| clock.sleep(secs(15)).await).await.unwrap();
    assert_eq!(clock.now(), begun + secs(15), "a dropped guard starts no period");
    assert!(request().try_acquire().await.unwrap().is_none());
    expect_free_at(&other, &clock, clock.now() + KEPT).await;
}

#[tokio::test(start_paused = true)]
async fn kept_hold_is_neither_handed_over_nor_warm() {
    let (locks, _, clock) = client();
    let request = || locks.mutex("x").keep_warm(KEPT);
    let first = request().at_least(secs(20)).acquire().await.unwrap();
    let (token, fence, granted) = (first.token(), first.fence(), clock.now());
    let next = tokio::spawn(request().acquire());
    settle_down().await;
    first.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(clock.now() >= granted + secs(20));
    assert!(next.token() != token && next.fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn last_guard_of_an_owner_keeps_the_lock() {
    let (locks, memory, clock) = client();
    let other = another_client(&memory, &clock);
    let owner = Owner::new();
    let request = || locks.mutex("x").reentrant(&owner).once_per(KEPT);
    let (outer, inner) = (request().acquire().await.unwrap(), request().acquire().await.unwrap());
    inner.release().await.unwrap();
    clock.sleep(secs(30)).await;
    outer.release().await.unwrap();
    expect_free_at(&other, &clock, clock.now() + KEPT).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_last_renewal_is_repeated() {
    let (locks, faulty, other, _, clock) = troubled();
    let guard = locks.mutex("x").at_least(KEPT).acquire().await.unwrap();
    let granted = clock.now();
    faulty.next(Op::Renew, [Fate::Hang]);
    fails(guard.release(), ErrorKind::Indeterminate).await;
    assert!(faulty.calls(Op::Release).is_empty());
    expect_free_at(&other, &clock, granted + KEPT).await;
}

#[tokio::test(start_paused = true)]
async fn late_renewal_does_not_shorten_the_kept_hold() {
    for (automatic, by_hand) in [(true, vec![]), (true, vec![Fate::Pass]), (false, late_by_hand())]
    {
        let (locks, faulty, other, _, clock) = troubled();
        let guard = locks.mutex("x").at_least(KEPT).acquire().await.unwrap();
        let granted = clock.now();
        if automatic {
            faulty.next(Op::Renew, [Fate::Slow(secs(2))]);
            faulty.called(Op::Renew, 1).await;
        }
        faulty.next(Op::Renew, by_hand.clone());
        for fate in by_hand {
            match fate {
                Fate::Pass => guard.renew().await.unwrap(),
                Fate::Hang => drop(polled(guard.renew())),
                _ => drop(fails(guard.renew(), ErrorKind::Indeterminate).await),
            }
        }
        guard.release().await.unwrap();
        let renewals = faulty.calls(Op::Renew).len();
        clock.sleep(TTL * 2).await;
        assert!(faulty.calls(Op::Renew).len() > renewals, "the last renewal is repeated");
        expect_free_at(&other, &clock, granted + KEPT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn last_renewal_is_repeated_only_after_an_unanswered_request() {
    for (fate, is_repeated) in [(Fate::Pass, false), (Fate::LoseAnswer, true)] {
        let (locks, faulty, _, _, clock) = troubled();
        faulty.next(Op::Acquire, [fate]);
        let guard = locks.mutex("x").at_least(KEPT).acquire().await.unwrap();
        faulty.called(Op::Renew, 1).await;
        guard.renew().await.unwrap();
        guard.release().await.unwrap();
        settle_down().await;
        assert_eq!(locks.metrics().releasing > 0, is_repeated, "{fate:?}");
        clock.sleep(TTL).await;
        let renewals = faulty.calls(Op::Renew);
        let pauses = renewals.windows(2).map(|pair| pair[1].at.saturating_since(pair[0].at));
        assert!(pauses.max().unwrap() <= TTL / 4, "an unanswered request sets the TTL: {fate:?}");
    }
}

fn late_by_hand() -> Vec<Fate> {
    vec![Fate::DelayRequest(secs(2)), Fate::Hang]
}

#[tokio::test(start_paused = true)]
async fn close_and_a_break_end_the_repeated_renewals() {
    for closes in [true, false] {
        let (locks, faulty, other, _, clock) = troubled();
        let guard = locks.mutex("x").at_least(KEPT).acquire().await.unwrap();
        faulty.next(Op::Renew, [Fate::Slow(secs(2))]);
        faulty.called(Op::Renew, 1).await;
        guard.release().await.unwrap();
        let released = clock.now();
        if closes {
            locks.close().await;
        } else {
            other.break_lock("x", BreakTarget::Any, BreakMode::Now, "test").await.unwrap();
            drop(locks.mutex("x").acquire().await.unwrap());
        }
        let took = clock.now().saturating_since(released);
        assert!(took < TTL / 2, "{took:?}, although nothing is left to repeat");
    }
}

#[tokio::test(start_paused = true)]
async fn broken_hold_is_released_and_not_kept() {
    let (locks, faulty, other, memory, _) = troubled();
    let guard = locks.mutex("x").at_least(KEPT).acquire().await.unwrap();
    faulty.next(Op::Renew, [Fate::Slow(secs(1))]);
    let releasing = tokio::spawn(guard.release());
    faulty.called(Op::Renew, 1).await;
    other.break_lock("x", BreakTarget::Any, BreakMode::RunOut, "test").await.unwrap();
    let error = releasing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Gone));
    assert_eq!(faulty.calls(Op::Release).len(), 1);
    assert!(memory.is_empty(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn local_request_gets_a_kept_lock_when_it_is_free() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").at_least(secs(8)).acquire().await.unwrap();
    let granted = clock.now();
    faulty.next(Op::Renew, [Fate::Slow(secs(2))]);
    faulty.called(Op::Renew, 1).await;
    guard.release().await.unwrap();
    locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
    let took = clock.now().saturating_since(granted);
    assert!(took >= secs(8) && took < secs(8) + millis(100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_hold_is_not_kept() {
    let (locks, memory, clock) = client();
    let guard = locks.mutex("x").at_least(KEPT).max_hold(secs(5)).acquire().await.unwrap();
    clock.sleep(secs(6)).await;
    let error = fails(guard.release(), ErrorKind::Lost(Reason::HeldTooLong)).await;
    assert!(memory.is_empty(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn request_is_checked_before_it_is_sent() {
    let (locks, faulty, ..) = troubled_with(|profile| profile.keeps_after_release = false);
    fails(locks.mutex("x").at_least(KEPT).acquire(), ErrorKind::Unsupported).await;
    fails(locks.mutex("x").once_per(KEPT).try_acquire(), ErrorKind::Unsupported).await;
    assert!(faulty.calls(Op::Acquire).is_empty());
    let (locks, ..) = client();
    for time in [Duration::ZERO, secs(31 * 24 * 60 * 60)] {
        fails(locks.mutex("x").once_per(time).acquire(), ErrorKind::InvalidInput).await;
    }
    let both = locks.mutex("x").at_least(Duration::ZERO).once_per(KEPT);
    fails(both.acquire(), ErrorKind::InvalidInput).await;
    fails(locks.read("x").at_least(KEPT).acquire(), ErrorKind::InvalidInput).await;
}
