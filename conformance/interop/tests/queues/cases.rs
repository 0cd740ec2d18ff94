use std::time::Instant;

use lockwright_interop::Side;

use crate::scene::{Scene, TTL};

pub(crate) fn a_hold_keeps_the_other_out_until_it_is_released(
    scene: &Scene,
    first: Side,
    second: Side,
) {
    let mut first = scene.holder(first);
    let mut second = scene.waiter(second);
    // Without renewals, the holder's lease or session would end in this time.
    assert!(second.peer.is_silent_for(TTL + TTL / 2));
    first.release();
    second.is_granted();
    assert_eq!(scene.queue().len(), 1);
    second.release();
    assert_eq!(scene.queue(), [""; 0]);
}

pub(crate) fn the_queue_is_kept_in_the_order_of_arrival(scene: &Scene, first: Side, second: Side) {
    let mut holder = scene.holder(first);
    let mut waiters = [second, first, second].map(|side| scene.waiter(side));
    for next in 0..waiters.len() {
        holder.release();
        waiters[next].is_granted();
        waiters[next + 1..].iter_mut().for_each(|waiter| waiter.is_waiting());
        std::mem::swap(&mut holder, &mut waiters[next]);
    }
    holder.release();
}

pub(crate) fn a_hold_that_runs_out_is_not_taken_back(scene: &Scene, first: Side, second: Side) {
    let mut paused = scene.holder(first);
    let mut second = scene.waiter(second);
    paused.peer.freeze();
    second.is_granted();
    let after = scene.queue();
    assert_eq!(after.len(), 1);
    paused.peer.thaw();
    let answer = paused.ask_to_release();
    if first == Side::Ours {
        assert_eq!(answer, "not ours");
    }
    // The paused client may not have noticed its loss, but must not end another client's hold.
    assert_eq!(scene.queue(), after);
    let mut third = scene.waiter(first);
    third.is_waiting();
    second.release();
    third.is_granted();
}

pub(crate) fn a_crash_frees_the_lock_when_it_has_run_out_and_not_before(
    scene: &Scene,
    first: Side,
    second: Side,
) {
    let mut first = scene.holder(first);
    let mut second = scene.waiter(second);
    let places = scene.queue();
    first.peer.kill();
    let looked = Instant::now();
    let left = scene.server.runs_out_in(&places[0]);
    second.is_granted();
    let took = looked.elapsed();
    assert!(took >= left, "it was free after {took:?} of {left:?}");
    assert_eq!(scene.queue(), places[1..]);
}

pub(crate) fn a_waiter_that_crashes_lets_nobody_in(scene: &Scene, first: Side, second: Side) {
    let mut holder = scene.holder(first);
    let mut dead = scene.waiter(second);
    let mut behind = scene.waiter(first);
    let mut last = scene.waiter(second);
    let places = scene.queue();
    dead.peer.kill();
    let without = [&places[..1], &places[2..]].concat();
    scene.queue_until("the dead one's place goes", |queue| queue == without);
    behind.is_waiting();
    last.is_waiting();
    holder.release();
    behind.is_granted();
    last.is_waiting();
    behind.release();
    last.is_granted();
}

pub(crate) fn a_waiter_that_crashes_blocks_nobody_for_ever(
    scene: &Scene,
    first: Side,
    second: Side,
) {
    let mut holder = scene.holder(first);
    let mut dead = scene.waiter(second);
    let mut behind = scene.waiter(first);
    let places = scene.queue();
    dead.peer.kill();
    holder.release();
    behind.is_granted();
    assert_eq!(scene.queue(), places[2..]);
}

pub(crate) fn names_below_a_name_are_others(scene: &Scene, first: Side, second: Side) {
    let mut below = scene.client(first);
    below.name += "/42";
    below.acquire();
    let mut above = scene.client(second);
    above.acquire();

    let mut other = scene.waiter(second);
    other.is_waiting();
    above.release();
    other.is_granted();
    below.release();
    other.release();
}

pub(crate) fn a_name_below_a_name_can_be_shared(scene: &Scene, first: Side, second: Side) {
    let [mut first, mut second] = [first, second].map(|side| scene.client_below(side, "42"));
    first.acquire();
    second.wait();
    second.is_waiting();
    first.release();
    second.is_granted();
    second.release();
}
