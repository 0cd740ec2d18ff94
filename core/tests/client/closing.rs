use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use lockwright_core::{
    Clock, DistributedLock, Error, ErrorKind, HoldState, Locks, Reason, Token, TokenSource,
};
use lockwright_memory::Memory;

use crate::support::{
    Fate, Faulty, Op, TTL, UNAVAILABLE, another_client, client, fails, faulty_memory, millis,
    poll_once, polled, runtime, secs, settle_down, troubled, troubled_with, two_clients_elsewhere,
};

/// Closes the client, and checks that the waiting `request` fails at once and leaves no hold.
async fn expect_turned_away<T, F>(scene: (Locks, Faulty, Locks, Memory, Clock), request: F)
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (locks, faulty, other, memory, clock) = scene;
    let request = tokio::spawn(request);
    settle_down().await;
    assert!(!request.is_finished());
    let closed = clock.now();
    locks.close().await;
    let ended = tokio::time::timeout(TTL * 20, request).await;
    let error = ended.expect("it is turned away").unwrap().err().expect("it gets nothing");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    assert_eq!(clock.now(), closed, "it is turned away at once");
    clock.sleep(TTL * 3).await;
    assert!(other.list("").await.unwrap().is_empty());
    drop((faulty, memory));
}

#[tokio::test(start_paused = true)]
async fn close_turns_away_first_round_trips() {
    for fate in [Fate::Slow(secs(3)), Fate::DelayAnswer(secs(3)), Fate::Hang, Fate::DoAndHang] {
        for request in 0..6 {
            let scene = troubled();
            let ticket = scene.2.mutex("t").acquire().await.unwrap().into_ticket().unwrap();
            let locks = scene.0.clone();
            scene.1.next(Op::Acquire, [fate]);
            scene.1.next(Op::Swap, [fate]);
            match request {
                0 => expect_turned_away(scene, locks.mutex("x").acquire()).await,
                1 => expect_turned_away(scene, locks.read("x").acquire()).await,
                2 => expect_turned_away(scene, locks.mutex("x").try_acquire()).await,
                3 => expect_turned_away(scene, locks.semaphore("x", 3).acquire()).await,
                4 => expect_turned_away(scene, locks.election("x").campaign("me").acquire()).await,
                _ => expect_turned_away(scene, async move { locks.resume(&ticket).await }).await,
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn close_turns_away_every_waiting_request() {
    // The request blocks in the backend, or waits for a wake-up.
    for blocks in [true, false] {
        let scene = troubled_with(|profile| profile.blocks = blocks);
        let held = scene.2.mutex("x").fixed().acquire().await.unwrap();
        let slow = blocks.then_some(Fate::Slow(TTL * 2));
        scene.1.next(Op::Acquire, [Fate::Pass].into_iter().chain(slow));
        let request = scene.0.mutex("x").acquire();
        expect_turned_away(scene, request).await;
        drop(held);
    }
    // The request pauses between two tries.
    for tries in [false, true] {
        let scene = troubled();
        scene.1.always(Op::Acquire, UNAVAILABLE);
        let request = scene.0.mutex("x");
        let request = if tries { request.retry(10, secs(5)) } else { request };
        expect_turned_away(scene, request.acquire()).await;
    }
    // The request is in the local queue.
    let scene = troubled();
    scene.1.always(Op::Acquire, Fate::Hang);
    let first = tokio::spawn(scene.0.mutex("x").acquire());
    settle_down().await;
    let request = scene.0.mutex("x").acquire();
    expect_turned_away(scene, request).await;
    assert_eq!(first.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    // The request waits for its first or second lock.
    for acts in [vec![Fate::Hang], vec![Fate::Pass, Fate::Hang]] {
        let scene = troubled();
        scene.1.next(Op::Acquire, acts);
        let request = scene.0.multi(["a", "b"]).acquire();
        expect_turned_away(scene, request).await;
    }
    // The request waits for a lock of its second client.
    let scene = troubled();
    let there = Memory::with_clock(scene.4.clone());
    let (waits, holds) = (another_client(&there, &scene.4), another_client(&there, &scene.4));
    let held = holds.mutex("b").acquire().await.unwrap();
    let request = scene.0.multi(["a"]).and(&waits, ["b"]).acquire();
    expect_turned_away(scene, request).await;
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_an_unpolled_request() {
    let (locks, faulty, _, memory, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::DoAndHang]);
    let request = polled(locks.mutex("x").acquire());
    let closed = clock.now();
    tokio::time::timeout(TTL * 20, locks.close()).await.expect("it ends");
    assert!(clock.now() <= closed + secs(1) + millis(10));
    assert_eq!(request.await.unwrap_err().kind(), ErrorKind::Closed);
    settle_down().await;
    assert!(memory.is_empty());
}

/// A waker that calls `close` again. It records whether that call returned, and the number of
/// releases in progress.
struct CloseAgain(Locks, Mutex<Vec<(bool, u64)>>);

impl Wake for CloseAgain {
    fn wake(self: Arc<Self>) {
        let is_done = poll_once(&mut Box::pin(self.0.close())).is_some();
        self.1.lock().unwrap().push((is_done, self.0.metrics().releasing));
    }
}

#[tokio::test(start_paused = true)]
async fn a_turned_away_request_counts_its_release_before_it_stops_waiting() {
    let (locks, faulty, _, memory, _) = troubled();
    faulty.next(Op::Acquire, [Fate::DoAndHang]);
    let request = polled(locks.mutex("x").acquire());
    let again = Arc::new(CloseAgain(locks.clone(), Mutex::default()));
    let mut closing = Box::pin(locks.close());
    let waker = Waker::from(Arc::clone(&again));
    assert!(closing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(request.await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(*again.1.lock().unwrap(), [(false, 1)]);
    closing.await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_an_unpolled_release() {
    for is_lost in [false, true] {
        let (locks, faulty, _, memory, clock) = troubled();
        let guard = locks.mutex("x").fixed().acquire().await.unwrap();
        clock.sleep(if is_lost { TTL * 95 / 100 } else { secs(0) }).await;
        faulty.next(Op::Release, [Fate::DoAndHang]);
        let release = polled(guard.release());
        let closed = clock.now();
        tokio::time::timeout(TTL * 20, locks.close()).await.expect("it ends");
        let waited = clock.now().saturating_since(closed);
        assert!(waited >= secs(5) && waited <= secs(6) + millis(10), "{waited:?}");
        drop(release);
        locks.close().await;
        assert_eq!(locks.metrics().releasing, 0);
        assert!(memory.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_granted_once_close_has_returned() {
    for _ in 0..200 {
        let memory = Memory::new();
        let locks = Locks::new(faulty_memory(&memory, &Clock::boot())).unwrap();
        let is_closed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tasks: Vec<_> = (0..4)
            .map(|i| {
                let (locks, is_closed) = (locks.clone(), Arc::clone(&is_closed));
                tokio::spawn(async move {
                    loop {
                        let was_closed = is_closed.load(std::sync::atomic::Ordering::SeqCst);
                        match locks.mutex(format!("x/{}", i % 2)).acquire().await {
                            Ok(_) => assert!(!was_closed, "it was granted after the close"),
                            Err(error) => break assert_eq!(error.kind(), ErrorKind::Closed),
                        }
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        locks.close().await;
        is_closed.store(true, std::sync::atomic::Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
    }
}

/// The client creates the token after its check that it is open, and before it sends the request.
#[tokio::test(start_paused = true)]
async fn hold_granted_after_a_close_is_released_and_not_kept() {
    let (_, memory, clock) = client();
    let to_close = Arc::new(Mutex::new(None::<Locks>));
    let closing = Arc::clone(&to_close);
    let source = move || {
        let locks = closing.lock().unwrap().take().unwrap();
        let _ = poll_once(&mut Box::pin(locks.close()));
        Token::random()
    };
    let builder = Locks::builder(memory.clone()).tokens(TokenSource::from_fn(source)).clock(clock);
    let locks = builder.build().unwrap();
    *to_close.lock().unwrap() = Some(locks.clone());
    fails(locks.mutex("x").at_least(TTL).acquire(), ErrorKind::Closed).await;
    locks.close().await;
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_releases_under_way() {
    let (locks, faulty, _, memory, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Release, [UNAVAILABLE, Fate::DelayAnswer(millis(300))]);
    drop(guard);
    let start = clock.now();
    locks.close().await;
    assert!(memory.is_empty());
    assert!(clock.now() >= start + millis(300));
    assert_eq!(locks.metrics().releasing, 0);
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_ever_for_a_server_that_is_away() {
    let (locks, faulty, _, _, clock) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Release, vec![UNAVAILABLE; 100_000]);
    drop(guard);
    let start = clock.now();
    locks.close().await;
    let waited = clock.now().saturating_since(start);
    assert!(waited <= TTL + secs(6), "{waited:?}");
}

#[test]
fn a_loss_is_reported_and_close_returns_after_the_renewer_has_ended() {
    let (gone, here) = (runtime(), runtime());
    let locks = Locks::builder(Memory::new()).runtime(gone.handle().clone()).build().unwrap();
    let guard = here.block_on(locks.mutex("x").ttl(millis(200)).acquire()).unwrap();
    let dropped = here.block_on(locks.mutex("y").acquire()).unwrap();
    drop(gone);
    let state = here
        .block_on(async { tokio::time::timeout(secs(20), guard.signal().ended()).await.unwrap() });
    assert_eq!(state, HoldState::Lost(Reason::Expired));
    drop(dropped);
    here.block_on(locks.close());
}

#[test]
fn a_client_may_keep_its_holds_on_another_runtime() {
    let (_runtime, locks, _) = two_clients_elsewhere(millis(600));
    let here = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let guard = here.block_on(locks.mutex("x").acquire()).unwrap();
    // No `block_on` drives the runtime `here` now, but the hold is still renewed.
    let first = guard.deadline();
    let limit = std::time::Instant::now() + secs(20);
    while guard.deadline() == first && std::time::Instant::now() < limit {
        std::thread::yield_now();
    }
    assert!(guard.deadline() > first);
}

#[test]
fn a_client_needs_a_runtime_and_says_so() {
    let error = Locks::new(Memory::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains(".runtime(handle)"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn guards_and_requests_outlive_the_last_handle() {
    let (locks, memory, clock) = client();
    let other = another_client(&memory, &clock);
    let held = other.mutex("y").acquire().await.unwrap();
    let guard = locks.mutex("x").acquire().await.unwrap();
    let waiting = polled(locks.mutex("y").acquire());
    drop(locks);
    clock.sleep(TTL * 3).await;
    guard.check().unwrap();
    drop(guard);
    settle_down().await;
    held.release().await.unwrap();
    let late = waiting.await.unwrap();
    clock.sleep(TTL * 3).await;
    late.check().unwrap();
    drop(late);
    settle_down().await;
    assert!(memory.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_dropped_together_with_the_last_handle_is_released() {
    let memory = Memory::new();
    for i in 0..2_000 {
        let locks = Locks::new(memory.clone()).unwrap();
        let guard = locks.mutex(format!("x/{i}")).acquire().await.unwrap();
        let dropping = tokio::task::spawn_blocking(move || drop(guard));
        drop(locks);
        dropping.await.unwrap();
    }
    tokio::time::timeout(secs(20), async {
        while !memory.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{} were not released", memory.len()));
}

#[test]
fn a_client_whose_runtime_has_gone_keeps_nothing() {
    for end_guard_first in [false, true] {
        let backend: Arc<dyn DistributedLock> = Arc::new(Memory::new());
        let weak = Arc::downgrade(&backend);
        let runtime = runtime();
        let (locks, guard) = runtime.block_on(async {
            let locks = Locks::new(backend).unwrap();
            let guard = locks.mutex("x").acquire().await.unwrap();
            (locks, guard)
        });
        if end_guard_first {
            // The release is queued for the renewal task, which never runs again.
            drop(guard);
            drop(runtime);
        } else {
            drop(runtime);
            drop(guard);
        }
        drop(locks);
        assert!(weak.upgrade().is_none(), "guard first: {end_guard_first}");
    }
}

#[test]
fn a_job_that_was_never_polled_passes_its_turn_on() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let theirs = builder.event_interval(1).enable_time().build().unwrap();
    let ours = runtime();
    let builder = Locks::builder(Memory::new()).ttl(millis(200));
    let locks = builder.runtime(theirs.handle().clone()).build().unwrap();
    let guard = ours.block_on(locks.mutex("x").acquire()).unwrap();
    theirs.block_on(settle_down());
    let waiting = ours.spawn(locks.mutex("x").acquire());
    ours.block_on(settle_down());
    drop(guard);
    // During this call, the renewal task spawns the release, which is never polled.
    theirs.block_on(tokio::task::yield_now());
    drop(theirs);
    assert_eq!(locks.metrics().releasing, 0);
    let _guard = ours
        .block_on(async { tokio::time::timeout(secs(20), waiting).await })
        .expect("the turn is passed on")
        .unwrap()
        .unwrap();
}

#[derive(Debug)]
struct Noting(std::sync::mpsc::Sender<bool>);

impl Drop for Noting {
    fn drop(&mut self) {
        self.0.send(tokio::runtime::Handle::try_current().is_ok()).unwrap();
    }
}

#[test]
fn a_backend_is_let_go_of_inside_the_runtime() {
    let runtime = runtime();
    let (sender, dropped) = std::sync::mpsc::channel();
    let locks = {
        let _inside = runtime.enter();
        let faulty = faulty_memory(&Memory::new(), &Clock::boot());
        let noting = Noting(sender);
        // The backend stores this function, so the drop of the backend drops `noting`.
        faulty.decide(move |_| {
            let _noting = &noting;
            Fate::Pass
        });
        Locks::new(faulty).unwrap()
    };
    runtime.block_on(async {
        locks.mutex("x").acquire().await.unwrap().release().await.unwrap();
    });
    drop(locks);
    assert!(dropped.recv().unwrap());
}
