use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockwright_core::{
    BreakMode, BreakTarget, ErrorKind, Event, Leader, Leadership, Locks, Observer, Reason,
};
use tokio::task::JoinHandle;

use crate::support::{Fate, Op, TTL, UNAVAILABLE, fails, millis, secs, settle_down, troubled};

fn spawn_lead(
    locks: &Locks,
    time: std::time::Duration,
) -> JoinHandle<lockwright_core::Result<u32>> {
    let election = locks.election("x");
    let lead = async move |_: &Leadership| {
        tokio::time::sleep(time).await;
        7
    };
    tokio::spawn(async move { election.lead("me", lead).await })
}

async fn next_in_rounds(observer: &mut Observer, rounds: u32) -> Option<Option<Leader>> {
    for _ in 0..rounds {
        tokio::select! {
            leader = observer.next() => return Some(leader.unwrap()),
            () = tokio::time::sleep(millis(300)) => {}
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_as_soon_to_a_busy_task() {
    let (locks, faulty, other, _, _) = troubled();
    let mut observer = locks.election("x").observe().each(secs(1));
    assert_eq!(observer.next().await.unwrap(), None);
    let leadership = other.election("x").campaign("me").acquire().await.unwrap();
    let told = next_in_rounds(&mut observer, 4).await.expect("it is told");
    assert_eq!(told.and_then(|leader| leader.token), Some(leadership.token()));
    assert!(next_in_rounds(&mut observer, 12).await.is_none(), "nothing has changed");
    let looks = faulty.calls(Op::Inspect).len();
    assert!((4..=7).contains(&looks), "asked {looks} times in about 5 s");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_longer_than_a_round_is_reported_too() {
    let (locks, faulty, other, ..) = troubled();
    let mut observer = locks.election("x").observe().each(secs(1));
    let leadership = other.election("x").campaign("me").acquire().await.unwrap();
    faulty.next(Op::Inspect, [Fate::DelayAnswer(millis(700))]);
    let told = next_in_rounds(&mut observer, 4).await.expect("it is told");
    assert_eq!(told.and_then(|leader| leader.token), Some(leadership.token()));
    assert_eq!(faulty.calls(Op::Inspect).len(), 1, "the server was asked once");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_reported_and_the_next_goes_on() {
    let (locks, faulty, other, _, clock) = troubled();
    let mut observer = locks.election("x").observe().each(secs(1));
    let _leadership = other.election("x").campaign("me").acquire().await.unwrap();
    faulty.next(Op::Inspect, [UNAVAILABLE, Fate::Panic]);
    let begun = clock.now();
    for _ in 0..2 {
        assert_eq!(observer.next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(observer.next().await.unwrap().is_some());
    assert!(clock.now() >= begun + secs(2), "a server that fails isn't asked without a pause");
}

#[tokio::test(start_paused = true)]
async fn the_leader_resigns_when_its_work_completes() {
    let (locks, _, other, memory, _) = troubled();
    let leading = spawn_lead(&locks, TTL * 3);
    tokio::time::sleep(TTL * 2).await;
    let leader = other.election("x").leader().await.unwrap().unwrap();
    assert_eq!(leader.value.as_deref(), Some("me"));
    assert_eq!(leading.await.unwrap().unwrap(), 7);
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_leader_campaigns_again() {
    let (locks, faulty, _, _, clock) = troubled();
    let (running, terms) = (Arc::new(()), AtomicU32::new(0));
    let work = async |leadership: &Leadership| {
        let _running = Arc::clone(&running);
        assert_eq!(Arc::strong_count(&running), 2, "the work of the lost leadership was dropped");
        if terms.fetch_add(1, Ordering::SeqCst) == 0 {
            faulty.send_event(&Event::Lost(leadership.token(), Reason::SessionEnded));
            clock.sleep(TTL * 5).await;
        }
        leadership.check().unwrap();
        leadership.fence()
    };
    let begun = clock.now();
    locks.election("x").lead("me", work).await.unwrap();
    assert_eq!(terms.into_inner(), 2);
    assert!(clock.now() < begun + secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_survives_transient_errors_only() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.always(Op::Acquire, UNAVAILABLE);
    let leading = spawn_lead(&locks, secs(1));
    clock.sleep(TTL * 3).await;
    faulty.mend();
    assert_eq!(leading.await.unwrap().unwrap(), 7);
    faulty.always(Op::Acquire, Fate::Refuse(ErrorKind::Denied));
    let denied = tokio::time::timeout(TTL * 3, spawn_lead(&locks, secs(1)));
    fails(async { denied.await.expect("it ends").unwrap() }, ErrorKind::Denied).await;
}

#[tokio::test(start_paused = true)]
async fn close_ends_a_campaign_and_a_leadership() {
    for leads in [false, true] {
        let (locks, _, other, memory, clock) = troubled();
        let held = if leads { None } else { other.mutex("x").try_acquire().await.unwrap() };
        let leading = spawn_lead(&locks, TTL * 5);
        settle_down().await;
        let begun = clock.now();
        locks.close().await;
        assert_eq!(memory.is_empty(), leads);
        fails(async { leading.await.unwrap() }, ErrorKind::Closed).await;
        assert_eq!(clock.now(), begun);
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_completed_is_not_repeated_after_a_loss() {
    let (locks, faulty, other, ..) = troubled();
    faulty.next(Op::Release, [Fate::Slow(secs(1))]);
    let leading = spawn_lead(&locks, secs(1));
    faulty.called(Op::Release, 1).await;
    let target = BreakTarget::Token(faulty.calls(Op::Acquire)[0].token);
    other.break_lock("x", target, BreakMode::Now, "to see").await.unwrap();
    fails(async { leading.await.unwrap() }, ErrorKind::Lost(Reason::Gone)).await;
    assert_eq!(faulty.calls(Op::Acquire).len(), 1);
}
