use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use lockwright_core::{
    BreakMode, BreakTarget, Clock, ErrorKind, Event, Guard, HoldState, Locks, Owner, Reason,
};
use lockwright_memory::Memory;

use crate::support::{
    Fate, Op, TTL, UNAVAILABLE, another_client, block_on, client, fails, faulty_memory, hold,
    millis, poll_once, polled, runtime, secs, settle_down, troubled, troubled_with,
    two_clients_elsewhere,
};

#[tokio::test(start_paused = true)]
async fn renews_at_a_third_of_the_ttl() {
    let (locks, faulty, _, _, clock) = troubled();
    let start = clock.now();
    let guard = locks.mutex("x").acquire().await.unwrap();
    clock.sleep(TTL * 3).await;
    let renewals = faulty.calls(Op::Renew);
    // `Hold::set_term` and `Hold::renew_slack` let a renewal start up to a sixteenth of the TTL
    // early.
    let first = renewals[0].at.saturating_since(start);
    assert!(first <= TTL / 3 + millis(5) && first >= TTL / 4, "{first:?}");
    assert!((8..=12).contains(&renewals.len()), "{} renewals in three TTLs", renewals.len());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn holds_are_renewed_in_batches() {
    for (batch, most_calls) in [(7, 200), (1_000, 10)] {
        let (locks, faulty, _, _, clock) = troubled_with(|profile| profile.renew_batch = batch);
        let guards = hold(&locks, 500).await;
        clock.sleep(TTL / 2).await;
        let renewals = faulty.calls(Op::Renew);
        assert!(renewals.iter().map(|call| call.count).sum::<usize>() >= 500);
        assert!(renewals.iter().all(|call| call.count <= batch));
        assert!(renewals.len() <= most_calls, "{} calls for 500 holds", renewals.len());
        clock.sleep(TTL * 2).await;
        guards.iter().for_each(|guard| guard.check().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_renewal_there_is_a_pause_whatever_the_ttl() {
    for ttl in [millis(500), secs(10), secs(30), secs(60), secs(3_600)] {
        let (locks, faulty, _, _, _) = troubled();
        let guard = locks.mutex("x").ttl(ttl).acquire().await.unwrap();
        faulty.always(Op::Renew, UNAVAILABLE);
        assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::Unreachable));
        let tries = faulty.calls(Op::Renew);
        let least = tries.windows(2).map(|pair| pair[1].at.saturating_since(pair[0].at)).min();
        let least = least.unwrap();
        assert!(least >= millis(2), "{ttl:?}: {least:?} between two tries");
        assert!((tries.len() as u64) < 100 + ttl.as_secs(), "{ttl:?}: {} tries", tries.len());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_renewal_that_extends_nothing_there_is_a_pause() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.always(Op::Renew, Fate::Valid(secs(1)));
    let guard = locks.mutex("x").acquire().await.unwrap();
    let deadline = guard.deadline();
    clock.sleep(TTL / 2).await;
    assert_eq!(guard.deadline(), deadline);
    let renewals = faulty.calls(Op::Renew).len();
    assert!((1..10).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn fixed_hold_at_risk_is_not_renewed() {
    let (locks, faulty, ..) = troubled();
    let guard = locks.mutex("x").fixed().acquire().await.unwrap();
    faulty.send_event(&Event::AtRisk(guard.token()));
    assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::Expired));
    assert!(faulty.calls(Op::Renew).is_empty());
}

/// Simulates a grant by an event, whose first term is short.
#[tokio::test(start_paused = true)]
async fn a_short_first_term_of_a_long_ttl_is_renewed_in_time() {
    let (locks, faulty, _, _, clock) = troubled();
    // The renewal of `x` must not wait for the check of `other`, which is due later.
    let _other = locks.mutex("other").ttl(millis(7_500)).acquire().await.unwrap();
    for ttl in [secs(30), secs(60), secs(3_600)] {
        faulty.next(Op::Acquire, [Fate::Valid(secs(2))]);
        let guard = locks.mutex("x").ttl(ttl).acquire().await.unwrap();
        assert!(guard.remaining() < secs(2));
        clock.sleep(secs(5)).await;
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_with_little_time_left_does_not_make_others_impatient() {
    let (locks, faulty, _, _, clock) = troubled();
    let guards = hold(&locks, 500).await;
    clock.sleep(millis(2_450)).await;
    faulty.next(Op::Acquire, [Fate::Valid(secs(2))]);
    let short = locks.mutex("short").acquire().await.unwrap();
    faulty.always(Op::Renew, Fate::DelayAnswer(millis(800)));
    assert_eq!(short.signal().ended().await, HoldState::Lost(Reason::Unreachable));
    clock.sleep(TTL).await;
    guards.iter().for_each(|guard| guard.check().unwrap());
    assert!(locks.metrics().renewals >= 500);
    let failed = locks.metrics().renewals_failed;
    assert!(failed < 10, "{failed} failed, of one whose time was too short");
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_partial_answer_is_no_loss() {
    for (batch, fates) in [(100, vec![Fate::Short(1), Fate::Short(0)]), (1, vec![Fate::Hang])] {
        let (locks, faulty, _, _, clock) = troubled_with(|profile| profile.renew_batch = batch);
        let guards = hold(&locks, 3).await;
        faulty.next(Op::Renew, fates);
        clock.sleep(TTL * 3).await;
        guards.iter().for_each(|guard| guard.check().unwrap());
        assert!(locks.metrics().renewals_failed >= if batch == 1 { 1 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn renewal_by_hand_succeeds_only_if_the_answer_says_so() {
    let (locks, faulty, other, ..) = troubled();
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Renew, [Fate::Short(0), Fate::Slow(millis(100))]);
    fails(guard.renew(), ErrorKind::Indeterminate).await;
    let renewing = polled(guard.renew());
    other.break_lock("x", BreakTarget::Any, BreakMode::RunOut, "test").await.unwrap();
    assert!(!guard.verify().await.unwrap());
    fails(renewing, ErrorKind::Lost(Reason::Broken)).await;
}

#[tokio::test(start_paused = true)]
async fn different_ttls_are_each_renewed_in_their_own_time() {
    let (locks, memory, clock) = client();
    let short = locks.mutex("short").ttl(millis(300)).acquire().await.unwrap();
    let long = locks.mutex("long").ttl(secs(3_600)).acquire().await.unwrap();
    clock.sleep(secs(30)).await;
    short.check().unwrap();
    long.check().unwrap();
    let other = another_client(&memory, &clock);
    assert!(other.mutex("short").try_acquire().await.unwrap().is_none());
    assert!(locks.metrics().renewals < 500);
}

#[tokio::test(start_paused = true)]
async fn the_longest_hold_is_as_asked() {
    let (locks, memory, clock) = client();
    let start = clock.now();
    let guard = locks.mutex("x").max_hold(secs(35)).acquire().await.unwrap();
    assert_eq!(guard.signal().ended().await, HoldState::Lost(Reason::HeldTooLong));
    assert_eq!(clock.now().saturating_since(start).as_secs(), 35);
    let other = another_client(&memory, &clock);
    let next = other.mutex("x").wait_for(secs(3)).acquire().await.unwrap();
    assert!(clock.now() >= guard.deadline());
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loss_has_no_slack() {
    let (locks, _, other, _, clock) = troubled();
    // Without `capped`, the renewal task's next check would be much later.
    let long = locks.mutex("long").ttl(secs(300)).acquire().await.unwrap();
    let capped = locks.mutex("x").ttl(secs(3_600)).max_hold(secs(1)).acquire().await.unwrap();
    clock.sleep_until(capped.lost_at() + millis(5)).await;
    assert_eq!(locks.metrics().lost, 1, "the renewer told it, with nobody looking");
    clock.sleep_until(capped.deadline() + millis(5)).await;
    other.mutex("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();
    long.release().await.unwrap();
}

struct Panicking;

impl tracing::Subscriber for Panicking {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        panic!("the log is broken");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn renewals_continue_when_the_log_panics() {
    let (locks, faulty, _, _, clock) = troubled();
    let _logging = tracing::subscriber::set_default(Panicking);
    let lost = locks.mutex("lost").acquire().await.unwrap();
    faulty.send_event(&Event::Lost(lost.token(), Reason::Gone));
    settle_down().await;
    assert!(lost.check().is_err());
    let guard = locks.mutex("x").acquire().await.unwrap();
    faulty.next(Op::Renew, vec![UNAVAILABLE; 4]);
    clock.sleep(TTL * 5).await;
    guard.check().expect("it is renewed");
    guard.release().await.unwrap();
}

#[derive(Default)]
struct PanickingWaker(AtomicBool);

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        assert!(self.0.swap(true, Ordering::SeqCst), "the waker is broken");
    }
}

fn broken_waker() -> Waker {
    Waker::from(Arc::<PanickingWaker>::default())
}

fn polled_with<F: Future>(waker: &Waker, future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    future
}

#[tokio::test(start_paused = true)]
async fn renewals_continue_when_a_waker_panics() {
    let (locks, _, clock) = client();
    let (first, second) = (locks.mutex("x").fixed(), locks.mutex("y"));
    let (first, second) = (first.acquire().await.unwrap(), second.acquire().await.unwrap());
    let signal = first.signal();
    let _ended = polled_with(&broken_waker(), signal.ended());
    clock.jump(TTL);
    clock.sleep(secs(2)).await;
    assert!(first.check().is_err() && second.check().is_err());
    let third = locks.mutex("z").acquire().await.unwrap();
    clock.sleep(TTL * 5).await;
    third.check().expect("it is renewed");
}

#[tokio::test(start_paused = true)]
async fn other_losses_are_reported_when_a_waker_panics() {
    let (locks, faulty, ..) = troubled();
    let (first, second) = (locks.mutex("x"), locks.mutex("y"));
    let (first, second) = (first.acquire().await.unwrap(), second.acquire().await.unwrap());
    let signals = [first.signal(), second.signal()];
    // The waker's first call panics, whichever hold is reported first.
    let waker = broken_waker();
    let _ended = signals.each_ref().map(|signal| polled_with(&waker, signal.ended()));
    for guard in [&first, &second] {
        faulty.send_event(&Event::Lost(guard.token(), Reason::Gone));
    }
    settle_down().await;
    for signal in &signals {
        assert_eq!(signal.state(), HoldState::Lost(Reason::Gone));
    }
}

/// The request that gets the turn, or enters its owner's hold, has a broken waker.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_the_waker_of_a_waiting_request_panics() {
    let (locks, memory, clock) = client();
    let owner = Owner::new();
    let held = locks.mutex("y").acquire().await.unwrap();
    let elsewhere = another_client(&memory, &clock).mutex("x").acquire().await.unwrap();
    let first = tokio::spawn(locks.mutex("x").reentrant(&owner).acquire());
    settle_down().await;
    let requests = [locks.mutex("x").reentrant(&owner), locks.mutex("y")];
    let requests = requests.map(|request| polled_with(&broken_waker(), request.acquire()));
    // No time passes, so that no timer calls the wakers.
    elsewhere.release().await.unwrap();
    settle_down().await;
    drop((first.await.unwrap().unwrap(), held));
    drop(requests);
    tokio::time::timeout(TTL, locks.close()).await.expect("nothing is left");
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn name_is_free_again_when_a_waker_panics_at_the_end_of_the_hold() {
    let ends: [fn(Guard); 3] = [
        |guard| drop(guard),
        |guard| assert!(poll_once(&mut Box::pin(guard.release())).is_some()),
        |guard| drop(guard.into_ticket().unwrap()),
    ];
    for end in ends {
        let (locks, ..) = client();
        let guard = locks.mutex("x").acquire().await.unwrap();
        let signal = guard.signal();
        let _ended = polled_with(&broken_waker(), signal.ended());
        end(guard);
        let next = locks.mutex("x").wait_for(TTL * 3).acquire().await.unwrap();
        next.release().await.unwrap();
    }
}

#[test]
fn renewals_move_to_the_runtime_of_the_next_request() {
    let (gone, here) = (runtime(), runtime());
    let builder = Locks::builder(Memory::new()).ttl(millis(600));
    let locks = builder.runtime(gone.handle().clone()).build().unwrap();
    let before = here.block_on(locks.mutex("before").ttl(secs(3)).acquire()).unwrap();
    drop(gone);
    here.block_on(async {
        let guard = locks.mutex("x").acquire().await.unwrap();
        let (first, earlier) = (guard.deadline(), before.deadline());
        tokio::time::timeout(secs(20), async {
            while guard.deadline() == first || before.deadline() == earlier {
                tokio::time::sleep(millis(5)).await;
            }
        })
        .await
        .expect("both are renewed");
        guard.release().await.unwrap();
        drop(before);
        locks.close().await;
    });
}

#[test]
fn renewal_that_ended_with_its_runtime_is_sent_again() {
    let (gone, here) = (runtime(), runtime());
    let faulty = faulty_memory(&Memory::new(), &Clock::boot());
    let builder = Locks::builder(faulty.clone()).ttl(secs(3)).runtime(gone.handle().clone());
    let locks = builder.build().unwrap();
    faulty.always(Op::Renew, Fate::Hang);
    let guard = gone.block_on(async {
        let guard = locks.mutex("before").acquire().await.unwrap();
        while faulty.calls(Op::Renew).is_empty() {
            tokio::time::sleep(millis(5)).await;
        }
        guard
    });
    drop(gone);
    faulty.always(Op::Renew, Fate::Pass);
    here.block_on(async {
        let other = locks.mutex("x").acquire().await.unwrap();
        let first = guard.deadline();
        while guard.check().is_ok() && guard.deadline() == first {
            tokio::time::sleep(millis(5)).await;
        }
        guard.check().expect("it is renewed on the new runtime");
        other.release().await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn nothing_is_granted_without_a_runtime_for_renewals() {
    let gone = runtime();
    let memory = Memory::new();
    let locks = Locks::builder(memory.clone()).runtime(gone.handle().clone()).build().unwrap();
    drop(gone);
    let error = block_on(locks.mutex("x").acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("runtime"), "{error}");
    assert!(memory.is_empty(), "the request was sent");
}

/// Polls `future` in a thread without a runtime. Returns after the first poll.
fn in_thread<F>(future: F) -> std::thread::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (polled, is_polled) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut future = Box::pin(future);
        block_on(std::future::poll_fn(move |cx| {
            let output = future.as_mut().poll(cx);
            let _ = polled.send(());
            output
        }))
    });
    is_polled.recv().unwrap();
    thread
}

#[test]
fn futures_outside_a_runtime_survive_the_end_of_the_client_runtime() {
    let (runtime, locks, other) = two_clients_elsewhere(secs(3));
    let guard = block_on(locks.mutex("x").acquire()).unwrap();
    let both = block_on(locks.multi(["a", "b"]).acquire()).unwrap();
    let (signal, mut signal_of_both) = (guard.signal(), both.signal());
    let in_local_queue = in_thread(locks.mutex("x").acquire());
    let waiting = in_thread(other.mutex("x").acquire());
    let (guard, both) = (Arc::new(guard), Arc::new(both));
    let (guard_runs, both_run) = (Arc::clone(&guard), Arc::clone(&both));
    let running = in_thread(async move { guard_runs.run(std::future::pending::<()>()).await });
    let running_both = in_thread(async move { both_run.run(std::future::pending::<()>()).await });
    let ended = in_thread(async move { signal.ended().await });
    let changed = in_thread(async move { signal_of_both.changed().await });
    let closing = in_thread(async move { other.close().await });
    drop(runtime);
    for error in [in_local_queue, waiting].map(|thread| thread.join().unwrap().unwrap_err()) {
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Closed), "{error}");
    }
    for error in [running, running_both].map(|thread| thread.join().unwrap().unwrap_err()) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(ended.join().unwrap(), HoldState::Lost(Reason::Expired));
    assert_eq!(changed.join().unwrap(), HoldState::Lost(Reason::Expired));
    closing.join().unwrap();
}

#[test]
fn futures_outside_a_runtime_use_the_client_runtime() {
    let (_runtime, locks, other) = two_clients_elsewhere(secs(2));
    let guard = block_on(locks.mutex("x").acquire()).unwrap();
    block_on(guard.run(std::future::ready(()))).unwrap();
    block_on(guard.run(async { tokio::time::sleep(millis(5)).await })).unwrap();
    block_on(guard.renew()).unwrap();
    assert!(block_on(guard.verify()).unwrap());
    let error = block_on(other.mutex("x").wait_for(millis(20)).acquire()).unwrap_err();
    assert!(error.is_timed_out());
    block_on(other.mutex("x").retry(2, millis(5)).acquire()).unwrap_err();
    let waiting = std::thread::spawn(move || block_on(other.mutex("x").acquire()).map(drop));
    block_on(guard.release()).unwrap();
    waiting.join().unwrap().unwrap();
    let both = block_on(locks.multi(["a", "b"]).acquire()).unwrap();
    block_on(both.run(async { tokio::time::sleep(millis(5)).await })).unwrap();
    block_on(both.release()).unwrap();
    let ticket = block_on(locks.mutex("t").acquire()).unwrap().into_ticket().unwrap();
    block_on(block_on(locks.resume(&ticket)).unwrap().release()).unwrap();
    assert!(block_on(locks.election("e").observe().next()).unwrap().is_none());
    block_on(locks.inspect("x")).unwrap();
    block_on(locks.close());
}
