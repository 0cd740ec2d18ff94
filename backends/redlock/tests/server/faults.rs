use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, DistributedLock, ErrorKind, Locks, ReleaseMode, Renew, RenewalOutcome, Wait,
};
use lockwright_redlock::NodeErrors;

use crate::common::{Five, NODE_TIMEOUT, claim, eventually, grant};

#[tokio::test(flavor = "multi_thread")]
async fn with_two_of_five_killed_it_goes_on() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    let before = claim("x");
    grant(&redlock, &before).await;
    five.each([1, 3], |server| server.kill());
    let hold = Renew::of(&before);
    let renewed = redlock.renew(&[hold]).await.unwrap();
    assert_eq!(renewed[0].outcome, RenewalOutcome::Renewed { valid: None });
    redlock.release(&before, ReleaseMode::Plain).await.unwrap();
    for redlock in [redlock, five.connect().await] {
        let held = claim("x");
        grant(&redlock, &held).await;
        assert_eq!(five.holders(&held, [0, 2, 4]), 3);
        redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    }
    five.nothing_is_left([0, 2, 4]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_three_of_five_killed_it_refuses_in_time_with_every_nodes_error() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    let addresses: Vec<_> = (0..3).map(|at| five.server(at).address().to_string()).collect();
    five.each(0..3, |server| server.kill());
    // The first requests may fail with another error, because their connections break.
    let begun = Instant::now();
    let error = eventually(async || {
        let error = redlock.try_acquire(&claim("x")).await.unwrap_err();
        (error.kind() == ErrorKind::Unavailable).then_some(error)
    })
    .await;
    let text = error.to_string();
    assert!(addresses.iter().all(|address| text.contains(address)), "{text}");
    let source = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<NodeErrors>());
    assert_eq!(source.unwrap().iter().count(), 3, "{text}");
    assert!(begun.elapsed() < NODE_TIMEOUT * 6, "late: {:?}", begun.elapsed());
    five.nothing_is_left(3..5).await;

    let locks = Locks::builder(redlock).build().unwrap();
    let (begun, limit) = (Instant::now(), Duration::from_secs(2));
    let error = locks.mutex("x").wait_for(limit).acquire().await.unwrap_err();
    assert!(error.is_timed_out(), "{error:?}");
    assert!(begun.elapsed() < limit + NODE_TIMEOUT * 3, "late: {:?}", begun.elapsed());
    let shown = format!("{error:?}");
    assert!(addresses.iter().all(|address| shown.contains(address)), "{shown}");
    locks.close().await;
    five.nothing_is_left(3..5).await;

    let error = five.config().connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(addresses.iter().all(|address| text.contains(address)), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hangs_costs_no_more_than_its_time_out() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    five.each([0, 4], |server| server.freeze());
    let mut took = Vec::new();
    for round in 0..10 {
        let held = claim(&format!("x{round}"));
        let begun = Instant::now();
        // If the test machine stalls for the whole time-out, the acquire fails.
        if let Ok(AcquireOutcome::Granted(_)) = redlock.acquire(&held, Wait::No).await {
            let _ = redlock.release(&held, ReleaseMode::Plain).await;
            took.push(begun.elapsed());
        }
    }
    let soon = took.iter().filter(|took| **took < NODE_TIMEOUT).count();
    assert!(soon > 5, "{took:?}");
    five.fleet.servers[2].freeze();
    let begun = Instant::now();
    let error = redlock.try_acquire(&claim("y")).await.unwrap_err();
    let took = begun.elapsed();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "three may vote when they go on: {error}");
    // The acquire waits one time-out for the votes, and another for the releases.
    assert!(took >= NODE_TIMEOUT && took < NODE_TIMEOUT * 8, "late: {took:?}");
    five.each([0, 2, 4], |server| server.thaw());
    five.nothing_is_left(0..5).await;
    eventually(async || {
        let next = claim("y");
        redlock.try_acquire(&next).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_a_frozen_minority() {
    let mut five = Five::start().await;
    let ttl = NODE_TIMEOUT * 6;
    let locks = Locks::builder(five.connect().await).ttl(ttl).build().unwrap();
    let guard = locks.mutex("x").acquire().await.unwrap();
    five.each([1, 2], |server| server.freeze());
    tokio::time::sleep(ttl * 3 / 2).await;
    guard.check().unwrap();
    guard.renew().await.unwrap();
    five.each([1, 2], |server| server.thaw());
    eventually(async || {
        guard.renew().await.ok()?;
        let token = guard.token().to_string();
        (0..5).all(|at| five.holder(at, "x").as_ref() == Some(&token)).then_some(())
    })
    .await;
    guard.release().await.unwrap();
    five.nothing_is_left(0..5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_does_not_wait_for_a_hanging_node() {
    let five = Five::start().await;
    five.fleet.servers[2].freeze();
    let begun = Instant::now();
    let redlock = five.connect().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "late: {:?}", begun.elapsed());
    grant(&redlock, &claim("x")).await;
    five.fleet.servers[2].thaw();
}
