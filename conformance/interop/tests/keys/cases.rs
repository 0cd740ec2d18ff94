use std::time::{Duration, Instant};

use lockwright_conformance::test_helpers::{FOR_EVER, claim, claim_for, granted_soon};
use lockwright_core::{Reason, ReleaseMode, ReleaseOutcome, Renewal, Wait};
use lockwright_interop::{LIMIT, SILENCE, Side, take_turns, waiting};

use crate::scene::Scene;

/// How early a key may expire by the test's clock. Redis's clock counts whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(20);

pub(crate) async fn a_lock_of_theirs_keeps_us_out_until_they_release_it(scene: Scene) {
    let mut theirs = scene.theirs();
    assert_eq!(theirs.ask("try orders/42 30"), "yes");
    let ours = claim("orders/42");
    let busy = scene.busy(&ours, FOR_EVER).await;
    let holder = busy.holder.as_ref().unwrap();
    assert_eq!(holder.token, None, "another library's holder has no token");
    assert!(holder.remaining.unwrap() > Duration::from_secs(5));

    let seen = scene.shows_theirs("orders/42").await;
    assert!(seen.remaining.unwrap() > Duration::from_secs(5));

    // The release withdraws our claim if the claim was queued.
    let withdrawn = scene.ours.release(&ours, ReleaseMode::Reconcile).await.unwrap();
    assert_eq!(withdrawn == ReleaseOutcome::Released, busy.queued);
    assert_eq!(scene.renew(&ours).await, [Renewal::not_held(Reason::Gone)]);
    let extended = theirs.ask("extend orders/42 30");
    assert_eq!(extended, "extended", "the other library still holds the lock");
    assert_eq!(theirs.ask("release orders/42"), "released");
    scene.grant(&claim("orders/42")).await;
}

pub(crate) async fn a_lock_of_ours_keeps_them_out_until_we_release_it(scene: Scene) {
    let mut theirs = scene.theirs();
    let ours = claim("orders/42");
    scene.grant(&ours).await;
    assert_eq!(theirs.ask("try orders/42 30"), "no");
    assert_eq!(scene.renew(&ours).await, [Renewal::RENEWED]);
    assert_eq!(theirs.ask("try orders/42 30"), "no");

    theirs.send("wait orders/42 30 20");
    assert!(theirs.is_silent_for(SILENCE));
    scene.release(&ours).await;
    assert_eq!(theirs.answer(), "yes", "the other library waits by polling");
    scene.busy(&claim("orders/42"), Wait::No).await;
    assert_eq!(theirs.ask("release orders/42"), "released");
}

pub(crate) async fn our_waiter_is_granted_what_they_release(scene: Scene) {
    let mut theirs = scene.theirs();
    assert_eq!(theirs.ask("try orders/42 30"), "yes");
    let waiter = waiting(&scene.locks(), "orders/42").await;
    assert_eq!(theirs.ask("release orders/42"), "released");
    let guard = waiter.await.unwrap();
    assert_eq!(theirs.ask("try orders/42 30"), "no");
    guard.release().await.unwrap();
    assert_eq!(theirs.ask("try orders/42 30"), "yes");
}

pub(crate) async fn neither_ends_what_the_other_took_over_after_an_expiry(scene: Scene) {
    let mut theirs = scene.theirs();

    // Their lock expires and ours is granted: the other library must not release ours.
    assert_eq!(theirs.ask("try a 1"), "yes");
    let ours = claim("a");
    let granted = granted_soon(&scene.ours, &ours, Wait::No).await;
    assert_eq!(theirs.ask("extend a 30"), "not ours");
    assert_eq!(theirs.ask("release a"), "not ours");
    scene.until_values("a", |value| value.contains(&ours.token.to_string())).await;
    assert_eq!(scene.grant(&ours).await.fence, granted.fence);
    scene.release(&ours).await;

    // Our lock expires and theirs is granted: Lockwright must not release theirs.
    let ours = claim_for("b", Duration::from_secs(2));
    scene.grant(&ours).await;
    assert_eq!(theirs.ask("wait b 30 20"), "yes");
    let before = scene.until_values("b", |value| !value.contains(&ours.token.to_string())).await;
    assert_eq!(scene.renew(&ours).await, [Renewal::not_held(Reason::Gone)]);
    for release_mode in [ReleaseMode::Plain, ReleaseMode::Reconcile] {
        let ended = scene.ours.release(&ours, release_mode).await.unwrap();
        assert_eq!(ended, ReleaseOutcome::NotHeld);
    }
    assert_eq!(scene.values("b"), before);
    assert_eq!(theirs.ask("release b"), "released");
}

pub(crate) async fn a_crash_of_theirs_frees_the_lock_when_it_has_run_out_and_not_before(
    scene: Scene,
) {
    const LIFE: Duration = Duration::from_secs(2);
    let mut theirs = scene.theirs();
    let asked = Instant::now();
    assert_eq!(theirs.ask("try orders/42 2"), "yes");
    theirs.kill();
    let guard = scene.locks().mutex("orders/42").wait_for(LIMIT).acquire().await.unwrap();
    let took = asked.elapsed();
    assert!(took + ROUNDING >= LIFE, "the lock was free after {took:?}");
    assert_eq!(scene.theirs().ask("try orders/42 30"), "no");
    guard.release().await.unwrap();
}

pub(crate) async fn a_crash_of_ours_frees_the_lock_when_it_has_run_out_and_not_before(
    scene: Scene,
) {
    const TTL: Duration = Duration::from_secs(2);
    let mut theirs = scene.theirs();
    let mut ours = scene.lockwright_process(TTL);
    assert_eq!(ours.ask("wait orders/42"), "yes");
    assert_eq!(theirs.ask("wait orders/42 30 3"), "no", "our hold is renewed");
    ours.kill();
    let looked = Instant::now();
    let left = scene.runs_out_in("orders/42");
    assert!(left <= TTL, "{left:?}");
    assert_eq!(theirs.ask("wait orders/42 30 20"), "yes");
    let took = looked.elapsed();
    assert!(took + ROUNDING >= left, "the lock was free after {took:?} of {left:?}");
}

pub(crate) async fn both_take_turns_and_are_never_inside_at_once(scene: Scene) {
    let ours = (Side::Ours, scene.lockwright_process(LIMIT), "wait orders/42");
    let theirs = (Side::Theirs, scene.theirs(), "wait orders/42 30 20");
    let clients = [ours, theirs].map(|(side, client, acquire)| {
        (side, client, [acquire, "release orders/42"].map(str::to_owned))
    });
    // Without a rest, a client that polls would rarely get the lock.
    take_turns(clients, Duration::from_millis(20));
}
