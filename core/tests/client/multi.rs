use lockwright_core::{BootInstant, Clock, ErrorKind, Fence, Held, HoldState, Locks, Reason, Step};
use lockwright_memory::Memory;

use crate::support::{
    Fate, Faulty, Op, TTL, UNAVAILABLE, another_client, client, fails, faulty_memory, millis, secs,
    troubled,
};

#[tokio::test(start_paused = true)]
async fn fixed_ones_are_kept_while_the_next_is_waited_for() {
    let (locks, faulty, other, _, clock) = troubled();
    let holder = other.mutex("c").acquire().await.unwrap();
    let waiting = tokio::spawn(locks.multi(["a", "b", "c"]).fixed().acquire());
    for _ in 0..5 {
        clock.sleep(TTL).await;
        assert!(other.mutex("a").try_acquire().await.unwrap().is_none());
    }
    faulty.next(Op::Renew, [UNAVAILABLE, Fate::LoseAnswer]);
    clock.sleep(TTL).await;
    holder.release().await.unwrap();
    let all = waiting.await.unwrap().unwrap();
    assert!(all.remaining() > TTL * 8 / 10, "{:?}", all.remaining());
    clock.sleep(TTL).await;
    assert!(matches!(all.check().unwrap_err().kind(), ErrorKind::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_while_another_is_waited_for_fails_the_request() {
    let (locks, memory, clock) = client();
    let other = another_client(&memory, &clock);
    let holder = other.mutex("b").acquire().await.unwrap();
    let begun = clock.now();
    let waiting = locks.multi(["a", "b"]).max_hold(TTL / 2).acquire();
    let waited = tokio::time::timeout(TTL * 3, waiting).await.expect("it waits no longer");
    let failure = waited.unwrap_err();
    assert!(matches!(failure.kind(), ErrorKind::Lost(_)), "{failure:?}");
    assert_eq!(failure.name().map(|name| name.as_str()), Some("a"));
    let took = clock.now().saturating_since(begun);
    assert!(took >= TTL / 2 && took < TTL / 2 + millis(10), "as soon as it is lost: {took:?}");
    holder.release().await.unwrap();
    locks.close().await;
    assert!(memory.is_empty(), "nothing is left of what waited");
}

fn two_of_one_store() -> (Locks, Faulty, Locks, Memory, Clock) {
    let (staged, faulty, plain, memory, clock) = troubled();
    (plain, faulty, staged, memory, clock)
}

#[tokio::test(start_paused = true)]
async fn two_names_that_are_one_lock_are_noticed_though_a_look_fails() {
    for trouble in [UNAVAILABLE, Fate::LoseAnswer] {
        let (one, faulty, two, memory, clock) = two_of_one_store();
        faulty.next(Op::Inspect, [trouble; 3]);
        let begun = clock.now();
        let waited = one.multi(["x"]).and(&two, ["x"]).wait_for(TTL * 100).acquire().await;
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(clock.now() < begun + TTL, "as soon as a look shows it");
        faulty.next(Op::Acquire, [UNAVAILABLE]);
        let waited = one.multi(["x"]).and(&two, ["x"]).wait_for(TTL * 100).acquire().await;
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Conflict);
        one.close().await;
        two.close().await;
        assert!(memory.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_does_not_fail_the_request() {
    let (one, faulty, two, memory, clock) = two_of_one_store();
    let other = another_client(&memory, &clock);
    let holder = other.mutex("y").acquire().await.unwrap();
    faulty.next(Op::Inspect, [UNAVAILABLE]);
    let tried = one.multi(["x"]).and(&two, ["y"]).try_acquire().await;
    assert!(tried.unwrap().is_none());
    faulty.next(Op::Inspect, [UNAVAILABLE; 2]);
    let waiting = tokio::spawn(one.multi(["x"]).and(&two, ["y"]).acquire());
    clock.sleep(TTL * 3).await;
    let looks = faulty.calls(Op::Inspect).len();
    assert_eq!(looks, 4, "until one shows that another one holds it");
    holder.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_order_is_that_of_the_names_on_the_server() {
    let (_, memory, clock) = client();
    let client = |namespace: &str| {
        let builder = lockwright_core::Locks::builder(memory.clone()).ttl(TTL);
        builder.clock(clock.clone()).namespace(namespace).build().unwrap()
    };
    let (one, two) = (client("z/"), client("y/"));
    let all = one.multi(["1"]).and(&two, ["2"]).acquire().await.unwrap();
    let names: Vec<&str> = all.guards().iter().map(|guard| guard.name()).collect();
    assert_eq!(names, ["2", "1"]);
    assert!(all.fence("1") > all.fence("2"));
    let [two, one] = all.into_guards().try_into().unwrap();
    two.release().await.unwrap();
    one.check().unwrap();
    one.release().await.unwrap();
    assert!(memory.is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_two_backends_the_fence_is_that_of_the_one_that_was_given_first() {
    let (old, ..) = client();
    let (_, memory, clock) = client();
    // Of two equal names, the one on `new` is acquired first, because that backend's name sorts
    // first. The loop raises the fences of `new` above those of `old`.
    let faulty = faulty_memory(&memory, &clock).with_profile(|profile| profile.backend = "another");
    let new = Locks::builder(faulty).ttl(TTL).clock(clock).build().unwrap();
    for _ in 0..5 {
        new.mutex("x").acquire().await.unwrap().release().await.unwrap();
    }
    let alone = old.mutex("x").acquire().await.unwrap();
    let before = alone.fence();
    alone.release().await.unwrap();
    let both = old.multi(["a", "x"]).and(&new, ["x"]).acquire().await.unwrap();
    let names: Vec<&str> = both.guards().iter().map(|guard| guard.name()).collect();
    assert_eq!(names, ["a", "x", "x"]);
    let [first, second] = [1, 2].map(|at| both.guards()[at].fence());
    assert_eq!((first, second), (Fence::new(6), Fence::new(before.get() + 2)));
    assert_eq!(both.fence("x"), Some(second));
    assert_eq!(both.fences("x").collect::<Vec<_>>(), [second, first]);
    assert_eq!(both.fence("b"), None);
    both.release().await.unwrap();
    let tried = new.multi(["x"]).and(&old, ["x"]).try_acquire().await.unwrap().unwrap();
    assert_eq!(tried.fence("x"), tried.fences("x").max(), "the new one was given first");
    tried.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn name_that_is_given_twice_around_another_client_is_acquired_once() {
    let ((locks, ..), (other, ..)) = (client(), client());
    let all = locks.multi(["x"]).and(&other, ["x"]).and(&locks, ["x"]).acquire().await.unwrap();
    assert_eq!(all.guards().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn silent_server_delays_several_locks_no_longer_than_one() {
    let (locks, faulty, other, _, clock) = troubled();
    let _held = other.mutex("d").acquire().await.unwrap();
    for op in [Op::Release, Op::Renew] {
        faulty.always(op, Fate::Hang);
    }
    let begun = clock.now();
    assert!(locks.multi(["a", "b", "c", "d"]).try_acquire().await.unwrap().is_none());
    let given_back = clock.now();
    assert!(given_back <= begun + secs(5), "{given_back:?}");
    let all = locks.multi(["e", "f", "g"]).acquire().await.unwrap();
    assert_eq!(all.renew().await.unwrap_err().kind(), ErrorKind::Indeterminate);
    let renewed = clock.now();
    assert!(renewed <= given_back + TTL / 4, "{renewed:?}");
    assert_eq!(all.release().await.unwrap_err().kind(), ErrorKind::Indeterminate);
    assert!(clock.now() <= renewed + secs(5));
}

/// Checks that a loss of `held` ends `run` and all signals before the deadline.
async fn stops_at_the_loss(held: &impl Held, clock: &Clock) -> BootInstant {
    held.check().unwrap();
    assert!(held.deadline() > held.lost_at());
    let lost_at = held.lost_at();
    let mut signal = held.signal();
    let (ended, stopped, ()) = tokio::join!(
        async { (held.signal().ended().await, clock.now()) },
        async { (held.run(std::future::pending::<()>()).await, clock.now()) },
        async { while signal.changed().await.is_live() {} },
    );
    assert!(matches!(ended.0, HoldState::Lost(_)), "{ended:?}");
    assert!(matches!(stopped.0.unwrap_err().kind(), ErrorKind::Lost(_)));
    assert_eq!((held.remaining(), ended.1), (millis(0), stopped.1));
    assert!(ended.1 >= lost_at && ended.1 < held.deadline());
    ended.1
}

#[tokio::test(start_paused = true)]
async fn any_guard_reports_the_first_loss() {
    let (locks, memory, clock) = client();
    let later = another_client(&memory, &clock);
    let fixed = |name| locks.mutex(name).fixed();
    stops_at_the_loss(&fixed("guard").acquire().await.unwrap(), &clock).await;
    let permit = locks.semaphore("permits", 3).fixed().acquire().await.unwrap();
    stops_at_the_loss(&permit, &clock).await;
    let both = locks.multi(["b"]).and(&later, ["a"]).max_hold(TTL * 3).acquire().await.unwrap();
    assert_eq!(both.signal().state(), HoldState::Held);
    let first = both.guards()[0].lost_at().min(both.guards()[1].lost_at());
    assert_eq!(both.lost_at(), first);
    stops_at_the_loss(&both, &clock).await;
    let both = locks.multi(["a", "b"]).acquire().await.unwrap();
    let signal = both.signal();
    let [_kept, released] = <[_; 2]>::try_from(both.into_guards()).unwrap();
    released.release().await.unwrap();
    assert_eq!((signal.state(), signal.ended().await), (HoldState::Released, HoldState::Released));
}

#[tokio::test(start_paused = true)]
async fn signal_of_several_reports_a_loss_after_a_release() {
    let (locks, _memory, clock) = client();
    let both = locks.multi(["a", "b"]).fixed().acquire().await.unwrap();
    let signal = both.signal();
    let [released, lost] = <[_; 2]>::try_from(both.into_guards()).unwrap();
    released.release().await.unwrap();
    clock.sleep(TTL * 2).await;
    assert!(lost.check().is_err());
    let lost = HoldState::Lost(Reason::Expired);
    assert_eq!((signal.state(), signal.ended().await), (lost, lost));
}

#[tokio::test(start_paused = true)]
async fn limit_counts_for_the_second_lock_too() {
    let (locks, faulty, _, _, clock) = troubled();
    faulty.next(Op::Acquire, [Fate::Pass]);
    faulty.always(Op::Acquire, Fate::Hang);
    let start = clock.now();
    let request = locks.multi(["a", "b"]).wait_for(secs(1)).acquire();
    fails(request, ErrorKind::TimedOut(Step::Answer)).await;
    assert!(clock.now().saturating_since(start) < secs(1) + millis(5));
}

#[tokio::test(start_paused = true)]
async fn first_lock_that_is_lost_during_the_second_try_fails_the_request() {
    let (locks, faulty, ..) = troubled();
    faulty.next(Op::Acquire, [Fate::Pass, Fate::DelayAnswer(secs(3))]);
    let both = locks.multi(["a", "b"]).max_hold(secs(2));
    fails(both.try_acquire(), ErrorKind::Lost(Reason::HeldTooLong)).await;
}
