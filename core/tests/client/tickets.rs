use lockwright_core::validity::Rules;
use lockwright_core::{ErrorKind, Event, Locks, Owner, Reason, Ticket};

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, another_client, client, fails, millis, secs, settle_down, troubled,
};

#[tokio::test(start_paused = true)]
async fn a_client_that_can_not_keep_to_the_ttl_leaves_the_ticket_as_it_is() {
    let (locks, memory, clock) = client();
    let rules = Rules { drift_floor: secs(1), ..Rules::default() };
    let careful = Locks::builder(memory).clock(clock).rules(rules).build().unwrap();
    let guard = locks.mutex("x").ttl(millis(900)).acquire().await.unwrap();
    let ticket = guard.into_ticket().unwrap();
    let error = fails(careful.resume(&ticket), ErrorKind::InvalidInput).await;
    assert!(error.to_string().contains("drift"), "{error}");
    let resumed = locks.resume(&ticket).await.unwrap();
    assert!(resumed.fence() > ticket.fence());
    resumed.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_ttl_is_an_expired_hold() {
    let (locks, faulty, _, memory, _) = troubled();
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    faulty.next(Op::Swap, [Fate::StartBefore(secs(9))]);
    let error = fails(locks.resume(&ticket), ErrorKind::Lost(Reason::Expired)).await;
    assert!(error.to_string().contains("it expired before"), "{error}");
    settle_down().await;
    assert!(memory.is_empty(), "it was given back");
}

#[tokio::test(start_paused = true)]
async fn failed_ticket_returns_the_guard() {
    let (locks, memory, clock) = client();
    let first = locks.mutex("x").fixed().acquire().await.unwrap();
    clock.sleep(TTL * 2).await;
    let failed = first.into_ticket().unwrap_err();
    assert!(matches!(failed.error().kind(), ErrorKind::Lost(_)), "{failed}");
    let next = locks.mutex("x").acquire();
    let first = failed.into_guard();
    assert!(first.check().is_err());
    drop(first);
    next.await.unwrap().release().await.unwrap();
    settle_down().await;
    assert!(memory.is_empty(), "nothing is left");
}

/// After the ticket's hold has expired, a late duplicate of its acquire creates a new hold with the
/// same token. `resume` must not take this hold.
#[tokio::test(start_paused = true)]
async fn a_late_duplicate_of_the_acquire_does_not_revive_a_ticket() {
    let (locks, faulty, other, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DelayRequest(TTL * 3)]);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    clock.sleep(TTL * 2).await;
    let next = other.mutex("x").try_acquire().await.unwrap().expect("it has run out");
    next.release().await.unwrap();
    clock.sleep(TTL + secs(1)).await;
    let seen = other.inspect("x").await.unwrap();
    assert_eq!(seen.holders[0].token, Some(faulty.calls(Op::Acquire)[0].token), "it has arrived");
    for locks in [&locks, &other] {
        fails(locks.resume(&ticket), ErrorKind::Lost(Reason::Gone)).await;
    }
    clock.sleep(TTL).await;
    assert!(other.inspect("x").await.unwrap().holders.is_empty(), "it runs out by itself");
}

#[tokio::test(start_paused = true)]
async fn late_duplicate_of_the_acquire_does_not_revive_a_ticket_that_is_being_resumed() {
    let (locks, faulty, other, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DelayRequest(TTL + secs(1))]);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    clock.sleep(TTL - secs(1)).await;
    faulty.always(Op::Swap, UNAVAILABLE);
    let resuming = tokio::spawn({
        let (locks, ticket) = (locks.clone(), ticket.clone());
        async move { locks.resume(&ticket).await }
    });
    clock.sleep(millis(1_200)).await;
    let next = other.mutex("x").try_acquire().await.unwrap().expect("it has run out");
    next.release().await.unwrap();
    clock.sleep(millis(1_500)).await;
    faulty.always(Op::Swap, Fate::Pass);
    let error = resuming.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Reason::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_good_though_an_acquire_was_left_unanswered() {
    let (locks, faulty, other, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::LoseAnswer]);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    clock.sleep(TTL / 2).await;
    faulty.next(Op::Inspect, [UNAVAILABLE, Fate::LoseAnswer]);
    faulty.next(Op::Swap, [Fate::LoseAnswer]);
    let resumed = locks.resume(&ticket).await.unwrap();
    assert!(resumed.fence() > ticket.fence());
    assert!(other.mutex("x").try_acquire().await.unwrap().is_none());
    resumed.release().await.unwrap();
    assert_eq!(other.resume(&ticket).await.unwrap_err().kind(), ErrorKind::Lost(Reason::Gone));
}

#[tokio::test(start_paused = true)]
async fn rejection_of_a_repeated_resumption_is_indeterminate() {
    let (locks, faulty, _, _, _) = troubled();
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    faulty.next(Op::Swap, [Fate::LoseAnswer, Fate::Refuse(ErrorKind::Denied)]);
    fails(locks.resume(&ticket), ErrorKind::Indeterminate).await;
}

#[tokio::test(start_paused = true)]
async fn ticket_is_renewed_and_released_without_a_new_token() {
    let (locks, memory, clock) = client();
    let other = &another_client(&memory, &clock);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    for _ in 0..3 {
        clock.sleep(TTL * 3 / 4).await;
        other.renew_ticket(&ticket).await.unwrap();
    }
    let seen = other.inspect("x").await.unwrap();
    assert_eq!(seen.holders[0].fence, Some(ticket.fence()));
    other.release_ticket(&ticket).await.unwrap();
    assert!(other.inspect("x").await.unwrap().holders.is_empty());
    assert_over(other, &ticket).await;
}

#[tokio::test(start_paused = true)]
async fn ended_hold_is_not_renewed_by_its_ticket() {
    let (locks, memory, clock) = client();
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    clock.sleep(TTL + secs(1)).await;
    let next = another_client(&memory, &clock).mutex("x").try_acquire().await.unwrap().unwrap();
    assert_over(&locks, &ticket).await;
    assert!(next.verify().await.unwrap());
    next.release().await.unwrap();
}

/// See `a_late_duplicate_of_the_acquire_does_not_revive_a_ticket`.
#[tokio::test(start_paused = true)]
async fn late_duplicate_of_the_acquire_is_not_the_tickets_hold() {
    let (locks, faulty, other, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DelayRequest(TTL * 2)]);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    locks.renew_ticket(&ticket).await.unwrap();
    clock.sleep(TTL * 2).await;
    let seen = other.inspect("x").await.unwrap();
    assert!(seen.holders[0].fence > Some(ticket.fence()), "the duplicate has arrived: {seen:?}");
    fails(locks.renew_ticket(&ticket), ErrorKind::Lost(Reason::Gone)).await;
    assert!(other.inspect("x").await.unwrap().holders.is_empty(), "the renewal ended it");
    assert_over(&locks, &ticket).await;
}

#[tokio::test(start_paused = true)]
async fn late_duplicate_of_the_acquire_is_released_and_never_granted_again() {
    let (locks, faulty, other, _, clock) = troubled();
    let again = [TTL * 2, TTL * 3].map(Fate::DelayRequest);
    faulty.next(Op::Acquire, again);
    let ticket = locks.mutex("x").acquire().await.unwrap().into_ticket().unwrap();
    clock.sleep(TTL * 5 / 2).await;
    fails(locks.release_ticket(&ticket), ErrorKind::Lost(Reason::Gone)).await;
    faulty.settled().await;
    assert!(other.inspect("x").await.unwrap().holders.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ticket_of_a_fixed_hold_is_fixed() {
    let (locks, faulty, _, _, clock) = troubled();
    let ticket = locks.mutex("x").fixed().acquire().await.unwrap().into_ticket().unwrap();
    let resumed = locks.resume(&ticket).await.unwrap();
    clock.sleep(TTL).await;
    fails(resumed.release(), ErrorKind::Lost(Reason::Expired)).await;
    assert!(faulty.calls(Op::Renew).is_empty());
}

async fn assert_over(locks: &Locks, ticket: &Ticket) {
    fails(locks.renew_ticket(ticket), ErrorKind::Lost(Reason::Gone)).await;
    fails(locks.release_ticket(ticket), ErrorKind::Lost(Reason::Gone)).await;
}

#[tokio::test(start_paused = true)]
async fn guard_of_a_lost_hold_that_became_no_ticket_is_released_when_dropped() {
    let (locks, faulty, _, memory, _) = troubled();
    let guard = locks.mutex("x").reentrant(&Owner::new()).acquire().await.unwrap();
    faulty.send_event(&Event::Lost(guard.token(), Reason::Gone));
    drop(guard.into_ticket().unwrap_err());
    settle_down().await;
    assert!(memory.is_empty());
}
