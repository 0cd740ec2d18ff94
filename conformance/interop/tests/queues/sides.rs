use std::time::Duration;

use lockwright::Locks;
use lockwright::backend::{Event, ReleaseMode};
use lockwright_conformance::test_helpers::{FOR_EVER, busy, claim_for, events, grant_next, next};
use lockwright_interop::{Side, take_turns};
use tokio::runtime::Runtime;

use crate::scene::{Client, Scene, TTL};

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
    let mut events = events(&ours);
    // The TTL is long, because the test doesn't poll, so the claim's place in the queue lasts one
    // TTL.
    let claim = claim_for(&scene.name, 2 * TTL);
    let busy = runtime.block_on(busy(&ours, &claim, FOR_EVER));
    assert!(busy.queued, "{busy:?}");
    // Ignore earlier wake-ups.
    while events.try_recv().is_ok() {}

    theirs.release();
    runtime.block_on(async {
        while !matches!(next(&mut events).await, Event::Wake(name) if name == claim.name) {}
        grant_next(&ours, &claim).await;
    });
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
    let clients = [Side::Ours, Side::Theirs, Side::Ours, Side::Theirs].map(|side| {
        let Client { peer, name } = scene.client(side);
        (side, peer, ["wait", "release"].map(|what| format!("{what} {name}")))
    });
    take_turns(clients, Duration::ZERO);
}
