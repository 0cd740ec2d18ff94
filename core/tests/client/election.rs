use lockwright_core::{ErrorKind, Leader, Observer};

use crate::support::{Fate, Op, UNAVAILABLE, millis, secs, troubled};

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
