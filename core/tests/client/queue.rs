use lockwright_core::{ErrorKind, Event, Fence, Granted, Locks, Step};

use crate::support::{Faulty, Op, TTL, client, fails, millis, polled, secs, settle_down, troubled};

#[tokio::test(start_paused = true)]
async fn a_deadline_begins_after_the_wait_for_the_turn() {
    let (locks, _, clock) = client();
    let first = locks.mutex("x").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.mutex("x").acquire());
    clock.sleep(TTL * 2).await;
    let released = clock.now();
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    // The second request began over one TTL ago, so its hold's term must begin later.
    assert_eq!(locks.metrics().grants_too_late, 0);
    assert!(second.deadline() > released + TTL / 2);
    assert_eq!(clock.now(), released);
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_client_share_one_remote_claim() {
    let (locks, faulty, other, memory, clock) = troubled();
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
        faulty.calls(Op::Acquire).iter().map(|call| call.token).collect();
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
    let waiting: Vec<_> = (0..10_000).map(|_| polled(locks.mutex("x").acquire())).collect();
    let last = polled(locks.mutex("x").acquire());
    drop(waiting);
    held.release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
    assert!(memory.is_empty());
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
    assert!(waited >= secs(5) && waited < secs(5) + millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_never_waits_lets_others_of_its_thread_go_on() {
    const MANY: u32 = 10_000;
    let (locks, _, _) = client();
    let _held = locks.mutex("held").acquire().await.unwrap();
    for tries in [false, true] {
        let other = tokio::spawn(async {});
        let mut turns = 0;
        while !other.is_finished() {
            if tries {
                assert!(locks.mutex("held").try_acquire().await.unwrap().is_none());
            } else {
                locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
            }
            turns += 1;
            assert!(turns < MANY, "nobody else went on in {MANY} turns, tries: {tries}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn first_request_queues_if_the_name_was_recently_busy() {
    let (locks, faulty, other, _, clock) = troubled();
    let requests = |held_for| {
        let (locks, faulty, other, clock) = (&locks, &faulty, &other, &clock);
        async move {
            let (held, before) =
                (other.mutex("x").acquire().await.unwrap(), faulty.calls(Op::Acquire).len());
            let waiting = polled(locks.mutex("x").acquire());
            clock.sleep(held_for).await;
            let sent = faulty.calls(Op::Acquire).len() - before;
            held.release().await.unwrap();
            waiting.await.unwrap().release().await.unwrap();
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

/// Sends a request, and returns how many requests that takes.
async fn sent_by_a_request(locks: &Locks, faulty: &Faulty) -> usize {
    let before = faulty.calls(Op::Acquire).len();
    let waiting = polled(locks.mutex("x").acquire());
    settle_down().await;
    drop(waiting);
    faulty.calls(Op::Acquire).len() - before
}

/// On a server without a queue, a client whose tries are always granted would overtake the others
/// for ever.
#[tokio::test(start_paused = true)]
async fn first_request_queues_if_others_wait_at_a_renewal() {
    let (locks, faulty, other, _, clock) = troubled();
    let held = locks.mutex("x").acquire().await.unwrap();
    let waiting = polled(other.mutex("x").acquire());
    clock.sleep(TTL / 2).await;
    held.release().await.unwrap();
    let _other = waiting.await.unwrap();
    assert_eq!(sent_by_a_request(&locks, &faulty).await, 1);
}

#[tokio::test(start_paused = true)]
async fn first_request_queues_if_others_wait_at_a_grant() {
    let (locks, faulty, other, _, clock) = troubled();
    let _other = other.mutex("x").acquire().await.unwrap();
    let waiting = polled(locks.mutex("x").acquire());
    // Longer than the client remembers that its own request was rejected.
    clock.sleep(TTL * 2).await;
    let mut granted = Granted::new(Fence::new(u64::MAX >> 1));
    (granted.start, granted.waiters) = (Some(clock.now()), true);
    let token = faulty.calls(Op::Acquire)[0].token;
    faulty.send_event(&Event::Handed(token, granted));
    drop(waiting.await.unwrap());
    settle_down().await;
    assert_eq!(sent_by_a_request(&locks, &faulty).await, 1);
}
