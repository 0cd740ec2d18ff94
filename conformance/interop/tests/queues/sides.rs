use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright::backend::{
    AcquireOutcome, Claim, Event, Events, Identity, ReleaseMode, RenewalMode, Wait,
};
use lockwright::{BootInstant, LockName, Locks, Mode, Token};
use lockwright_interop::{LIMIT, Side, Turns};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::scene::{Scene, TTL};

pub(crate) fn an_attempt_of_ours_beside_their_hold_fails_and_leaves_nothing(scene: &Scene) {
    an_attempt_fails_and_leaves_nothing(scene, Side::Ours, Side::Theirs);
}

pub(crate) fn an_attempt_of_theirs_beside_our_hold_fails_and_leaves_nothing(scene: &Scene) {
    an_attempt_fails_and_leaves_nothing(scene, Side::Theirs, Side::Ours);
}

fn an_attempt_fails_and_leaves_nothing(scene: &Scene, attempt: Side, beside: Side) {
    let mut holder = scene.holder(beside);
    let before = scene.queue();
    let mut other = scene.client(attempt);
    assert_eq!(other.attempt(), "no");
    assert_eq!(scene.queue(), before);
    holder.release();
    assert_eq!(other.attempt(), "yes");
    other.release();
}

pub(crate) fn their_release_wakes_us(scene: &Scene) {
    let mut theirs = scene.holder(Side::Theirs);
    let runtime = Runtime::new().unwrap();
    let ours = runtime.block_on(lockwright::backend::open(&scene.server.url())).unwrap();
    let (sender, mut events) = mpsc::unbounded_channel();
    ours.attach(Events::to(move |event| sender.send(event).is_ok()));
    let claim = Claim {
        name: LockName::new(&scene.name).unwrap(),
        mode: Mode::Exclusive,
        token: Token::random(),
        identity: Arc::new(Identity::of_this_process(Some("test"))),
        // The place in the queue lasts for one TTL, because the test doesn't poll to extend it.
        ttl: 2 * TTL,
        fences: 1,
        renewal_mode: RenewalMode::Auto,
    };
    let until = Wait::Until(BootInstant::FAR_FUTURE);
    match runtime.block_on(ours.acquire(&claim, until)).unwrap() {
        AcquireOutcome::Busy(busy) => assert!(busy.queued, "{busy:?}"),
        AcquireOutcome::Granted(granted) => panic!("granted: {granted:?}"),
    }
    // Ignore earlier wake-ups.
    while events.try_recv().is_ok() {}

    theirs.release();
    let woken = async {
        while let Some(event) = events.recv().await {
            if matches!(&event, Event::Wake(name) if *name == claim.name) {
                return;
            }
        }
    };
    runtime.block_on(async { tokio::time::timeout(LIMIT, woken).await }).unwrap();
    let again = runtime.block_on(ours.acquire(&claim, until)).unwrap();
    assert!(matches!(again, AcquireOutcome::Granted(_)), "{again:?}");
    runtime.block_on(ours.release(&claim, ReleaseMode::Plain)).unwrap();
}

pub(crate) fn their_hold_is_one_without_a_token(scene: &Scene) {
    let mut theirs = scene.holder(Side::Theirs);
    let _waiter = scene.waiter(Side::Theirs);
    let runtime = Runtime::new().unwrap();
    let seen = runtime.block_on(async {
        let backend = lockwright::backend::open(&scene.server.url()).await.unwrap();
        Locks::new(backend).unwrap().inspect(&scene.name).await.unwrap()
    });
    assert_eq!(seen.holders.len(), 1, "{seen:?}");
    assert_eq!((seen.holders[0].token, &seen.holders[0].identity), (None, &None));
    assert_eq!(seen.waiters, Some(1), "{seen:?}");
    theirs.release();
}

pub(crate) fn both_take_turns_and_are_never_inside_at_once(scene: &Scene) {
    const PAUSE: Duration = Duration::from_millis(20);
    let turns = Mutex::new(Turns::default());
    let take_turns = |side| {
        let mut client = scene.client(side);
        while !turns.lock().unwrap().are_enough() {
            client.acquire();
            turns.lock().unwrap().enter(side);
            std::thread::sleep(PAUSE);
            turns.lock().unwrap().leave();
            client.release();
        }
    };
    std::thread::scope(|scope| {
        for side in [Side::Ours, Side::Theirs, Side::Ours, Side::Theirs] {
            scope.spawn(move || take_turns(side));
        }
    });
}
