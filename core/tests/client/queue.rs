use crate::support::{Act, TTL, client, fails, millis, polled, secs, settle_down, troubled};
use lockwright_core::{ErrorKind, Step};

#[tokio::test(start_paused = true)]
async fn a_deadline_begins_after_the_wait_for_the_turn() {
    let (locks, _, clock) = client();
    let first = locks.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.mutex("x").acquire().await.unwrap() }
    });
    clock.sleep(TTL * 2).await;
    let released = clock.now();
    first.release().await.unwrap();
    let second = waiting.await.unwrap();
    // If the second hold's term began with the request, the term would be over before the grant.
    assert_eq!(locks.metrics().grants_too_late, 0);
    assert!(second.deadline() > released + TTL / 2);
    assert_eq!(clock.now(), released);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_client_share_one_remote_claim() {
    let (locks, stage, other, memory, clock) = troubled();
    let held = other.mutex("x").acquire().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let locks = locks.clone();
        tasks.push(tokio::spawn(async move {
            locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
        }));
    }
    clock.sleep(secs(5)).await;
    let inspection = other.inspect("x").await.unwrap();
    assert_eq!(inspection.waiters, Some(1), "50 tasks are one waiter on the server");
    let tokens: std::collections::HashSet<_> =
        stage.calls("acquire").iter().map(|call| call.token).collect();
    assert_eq!(tokens.len(), 1);
    held.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    locks.close().await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiters_may_leave() {
    let (locks, memory, _) = client();
    let held = locks.mutex("x").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..10_000 {
        let acquire = polled(locks.mutex("x").acquire());
        waiting.push(acquire);
    }
    let last = polled(locks.mutex("x").acquire());
    drop(waiting);
    held.release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_try_does_not_wait_for_the_turn() {
    let (locks, stage, _, _, clock) = troubled();
    stage.on("acquire", [Act::AnswerLate(secs(2))]);
    let slow = tokio::spawn({
        let locks = locks.clone();
        async move { locks.mutex("x").acquire().await.unwrap() }
    });
    settle_down().await;
    let before = clock.now();
    assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(clock.now(), before);
    slow.await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_limit_counts_from_the_request_and_names_the_step() {
    let (locks, _, other, _, clock) = troubled();
    let held = locks.mutex("x").acquire().await.unwrap();
    let start = clock.now();
    let waiting = polled(locks.mutex("x").wait_for(secs(5)).acquire());
    clock.sleep(secs(3)).await;
    held.release().await.unwrap();
    let _taken = other.mutex("x").acquire().await.unwrap();
    fails(waiting, ErrorKind::TimedOut(Step::Holder)).await;
    let waited = clock.now().saturating_since(start);
    assert!(waited >= secs(5) && waited < secs(5) + std::time::Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_never_waits_lets_others_of_its_thread_go_on() {
    const MANY: u32 = 10_000;
    let (locks, _, _) = client();
    let other = tokio::spawn(async {});
    for _ in 0..MANY {
        locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
        if other.is_finished() {
            return;
        }
    }
    panic!("nobody else went on in {MANY} turns");
}

#[tokio::test(start_paused = true)]
async fn neither_does_one_of_tries() {
    let (locks, _, _) = client();
    let _held = locks.mutex("x").acquire().await.unwrap();
    let other = tokio::spawn(async {});
    for _ in 0..10_000 {
        assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
        if other.is_finished() {
            return;
        }
    }
    panic!("nobody else went on");
}

#[tokio::test(start_paused = true)]
async fn first_request_queues_if_the_name_was_recently_busy() {
    let (locks, stage, other, _, clock) = troubled();
    let requests = |held_for| {
        let (locks, stage, other, clock) = (&locks, &stage, &other, &clock);
        async move {
            let (held, before) =
                (other.mutex("x").acquire().await.unwrap(), stage.calls("acquire").len());
            let waiting = locks.mutex("x");
            let mut waiting = polled(waiting.acquire());
            clock.sleep(held_for).await;
            let sent = stage.calls("acquire").len() - before;
            held.release().await.unwrap();
            waiting.as_mut().await.unwrap().release().await.unwrap();
            sent
        }
    };
    assert_eq!(requests(millis(1)).await, 2, "a try, and a request that queues");
    assert_eq!(requests(millis(1)).await, 1);
    clock.sleep(TTL / 2).await;
    assert_eq!(requests(millis(1)).await, 1);
    assert_eq!(locks.metrics().waited, 3);
    clock.sleep(TTL + millis(1)).await;
    assert_eq!(requests(millis(1)).await, 2);
    let held = other.mutex("x").acquire().await.unwrap();
    assert!(locks.mutex("x").try_acquire().await.unwrap().is_none());
    assert_eq!(other.inspect("x").await.unwrap().waiters, Some(0), "a try doesn't queue");
    held.release().await.unwrap();
}
