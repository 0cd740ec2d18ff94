use lockwright_core::{ErrorKind, HoldState, Reason, Step};

use crate::support::{TTL, another_client, client, fails, millis, secs};

#[tokio::test(start_paused = true)]
async fn one_holds_and_the_other_waits_until_it_is_released() {
    let (a, memory, clock) = client();
    let b = another_client(&memory, &clock);
    let first = a.mutex("x").acquire().await.unwrap();
    assert!(b.mutex("x").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { b.mutex("x").acquire().await.unwrap() });
    tokio::task::yield_now().await;
    let fence = first.fence();
    first.release().await.unwrap();
    let second = waiting.await.unwrap();
    assert!(second.fence() > fence);
    second.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_for_as_long_as_its_guard_lives() {
    let (a, memory, clock) = client();
    let b = another_client(&memory, &clock);
    let guard = a.mutex("x").acquire().await.unwrap();
    clock.sleep(TTL * 20).await;
    guard.check().unwrap();
    assert!(b.mutex("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    b.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fixed_hold_ends_by_itself_and_says_so() {
    let (a, _, clock) = client();
    let guard = a.mutex("x").fixed().acquire().await.unwrap();
    let signal = guard.signal();
    let lost_at = guard.lost_at();
    assert_eq!(signal.ended().await, HoldState::Lost(Reason::Expired));
    assert!(clock.now() >= lost_at && clock.now() < lost_at + millis(5));
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost(Reason::Expired));
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost(Reason::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_limit_passes_and_nothing_is_held() {
    let (a, memory, clock) = client();
    let b = another_client(&memory, &clock);
    let guard = a.mutex("x").acquire().await.unwrap();
    fails(b.mutex("x").wait_for(secs(3)).acquire(), ErrorKind::TimedOut(Step::Holder)).await;
    fails(b.mutex("x").retry(2, secs(1)).acquire(), ErrorKind::TimedOut(Step::Holder)).await;
    fails(a.mutex("x").wait_for(secs(3)).acquire(), ErrorKind::TimedOut(Step::LocalTurn)).await;
    fails(a.mutex("x").retry(2, secs(1)).acquire(), ErrorKind::TimedOut(Step::LocalTurn)).await;
    guard.release().await.unwrap();
    b.close().await;
    a.close().await;
    assert!(memory.is_empty());
}
