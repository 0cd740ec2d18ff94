use std::task::Poll;
use std::time::Duration;

use lockwright_core::{DistributedLock, Locks, ReleaseMode, Wait};

use crate::common::{Five, LIMIT, busy, claim, claim_for, eventually, grant};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_round_leaves_nothing() {
    let mut five = Five::start().await;
    let (redlock, other) = (five.connect().await, five.connect().await);
    let held = claim("x");
    grant(&redlock, &held).await;
    five.all_hold(&redlock, &held).await;
    // Two nodes lose the hold, and would grant the next claim.
    five.each([0, 3], |server| server.command::<()>(&["DEL", "x"]).unwrap());
    let next = claim("x");
    busy(&other, &next, Wait::No).await;
    assert_eq!(five.holders(&next, 0..5), 0, "before it is answered");
    redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    five.nothing_is_left(0..5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_work_of_frozen_nodes_leaves_nothing() {
    let mut five = Five::start().await;
    let redlock = five.connect().await;
    grant(&redlock, &claim("before")).await;
    five.each(0..3, |server| server.freeze());
    let lost = claim("x");
    redlock.try_acquire(&lost).await.unwrap_err();
    five.each(0..3, |server| server.thaw());
    // The tombstone makes the order of attempt and release irrelevant.
    eventually(async || {
        let settled = |at: usize| {
            let tombstone = format!("lockwright:{{x}}:ended:{}", lost.token);
            five.fleet.servers[at].command::<bool>(&["EXISTS", &tombstone]).unwrap()
        };
        (0..3).all(settled).then_some(())
    })
    .await;
    assert_eq!(five.holders(&lost, 0..5), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_with_a_hold_is_owed_its_release() {
    let servers = lockwright_testbed::Redis::options().append_only("always");
    let mut five = Five::start_as(servers, crate::common::options()).await;
    let redlock = five.connect().await;
    let held = claim_for("x", LIMIT * 2);
    grant(&redlock, &held).await;
    five.all_hold(&redlock, &held).await;
    five.server(2).kill();
    redlock.release(&held, ReleaseMode::Plain).await.unwrap();
    five.server(2).restart(true).unwrap();
    five.nothing_is_left(0..5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_dropped_anywhere_leaves_nothing() {
    let five = Five::start().await;
    let redlock = std::sync::Arc::new(five.connect().await);
    let locks = Locks::builder(std::sync::Arc::clone(&redlock)).build().unwrap();
    let mut finished = 0;
    for polls in 0..40 {
        let mut acquire = std::pin::pin!(locks.mutex("x").acquire());
        for poll in 0..polls {
            let is_ready =
                std::future::poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx).is_ready()));
            if is_ready.await {
                finished += 1;
                break;
            }
            if poll % 2 == 0 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_micros(100 * poll)).await;
            }
        }
    }
    assert!(finished > 0, "it was never carried to its end");
    assert!(finished < 40, "it was never dropped");
    five.nothing_is_left(0..5).await;
    // Without the core client, the caller must release a dropped claim.
    for polls in 0..10 {
        let lost = claim("y");
        {
            let mut acquire = redlock.acquire(&lost, Wait::No);
            for _ in 0..polls {
                let is_ready =
                    std::future::poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx).is_ready()));
                if is_ready.await {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
        redlock.release(&lost, ReleaseMode::Reconcile).await.unwrap();
    }
    five.nothing_is_left(0..5).await;
    locks.close().await;
}
