use std::time::Duration;

use lockwright_conformance::liveness;
use lockwright_core::{DistributedLock, Locks, ReleaseMode, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{locks, one_server, server_and_proxy};
use crate::common::{
    Backend, LIMIT, assert_few_sessions, busy, claim, claim_for, connect, entries, eventually,
    grant, is_clean, name,
};

const TTL: Duration = Duration::from_secs(2);

/// Time for the server to end an expired lease, for a waiter's slow poll, and for a busy machine.
const MORE: Duration = Duration::from_secs(4);

#[test]
fn live_waiter_holds_after_the_dead_ones() {
    let server = one_server();
    for are_killed in [true, false] {
        for dead in [0, 3] {
            let connect = || locks(server.url());
            let took = liveness::wait_behind_the_dead(connect, TTL, dead, are_killed);
            eprintln!("behind {dead} waiters, killed: {are_killed}: {took:?}");
            assert!(
                took <= TTL + MORE,
                "late: {took:?} behind {dead} waiters, killed: {are_killed}"
            );
        }
    }
}

#[test]
fn guard_without_a_runtime_is_lost() {
    let server = one_server();
    liveness::guard_without_a_runtime_is_lost(|| locks(server.url()), TTL);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_client_is_granted_nothing() {
    let (server, proxy, url) = server_and_proxy();
    let other = locks(server.url()).await;
    let connect = || locks(url.clone());
    liveness::closed_client_is_granted_nothing(connect, &other, || ()).await;
    // This makes the client's open connections silent, but new connections work.
    let silence = || proxy.silence_present();
    liveness::closed_client_is_granted_nothing(connect, &other, silence).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_try_leaves_nothing_behind() {
    let server = one_server();
    let (ours, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = claim("x");
    grant(&other, &held).await;
    assert!(!busy(&ours, &claim("x"), Wait::No).await.queued);
    assert_eq!(entries(&server, "x").await, 1);
    // A `try_acquire` that is dropped in flight leaves nothing either, once its client has released
    // it.
    let locks = Locks::new(ours).unwrap();
    for at in 0..20 {
        let tries = locks.mutex("x").try_acquire();
        drop(timeout(Duration::from_micros(at * 200), tries).await);
    }
    eventually(|| async { (entries(&server, "x").await == 1).then_some(()) }).await;
    other.release(&held, ReleaseMode::Plain).await.unwrap();
    eventually(|| async { (entries(&server, "x").await == 0).then_some(()) }).await;
}

/// Requests to a frozen server time out. The little that they leave on the server expires.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_requests_leave_nothing_on_the_server() {
    let server = one_server();
    let locks = locks(server.url()).await;
    locks.mutex("warm").ttl(TTL).acquire().await.unwrap().release().await.unwrap();
    server.members[0].freeze();
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(TTL).wait_for(TTL).acquire();
        burst.spawn(async move { request.await.map(drop) });
    }
    let begun = Instant::now();
    while let Some(refused) = burst.join_next().await {
        refused.unwrap().expect_err("no server answers");
    }
    let gave_up = begun.elapsed();
    assert!(gave_up < LIMIT, "{gave_up:?}");
    server.members[0].thaw();
    eventually(|| async { is_clean(&server).then_some(()) }).await;
    // A burst of requests that are answered needs only one more lease or session.
    let mut burst = JoinSet::new();
    for at in 0..1_000 {
        let request = locks.mutex(format!("burst/{at}")).ttl(LIMIT).acquire();
        burst.spawn(async move { request.await.unwrap() });
    }
    let held = burst.join_all().await;
    assert_few_sessions(&server);
    drop(held);
}

/// The server dies, and the waiting claims expire. The error reports the dead server, not the
/// `expiry`.
pub(crate) async fn waiter_gets_an_error(ttl: Duration, limit: Duration, expiry: &str) {
    let mut server = one_server();
    let holder = connect(&server.url()).await;
    grant(&holder, &claim_for("orders", ttl * 6)).await;
    let mut waiting = JoinSet::new();
    for limit in [None, Some(limit)] {
        let backend = Backend::connect(&server.url()).await.unwrap();
        let locks = Locks::builder(backend).ttl(ttl).build().unwrap();
        waiting.spawn(async move {
            let request = locks.mutex("orders");
            match limit {
                None => request.acquire().await,
                Some(limit) => request.wait_for(limit).acquire().await,
            }
            .unwrap_err()
        });
    }
    eventually(|| async {
        let found = holder.inspect(&name("orders")).await.ok()?;
        (found.waiters == Some(2)).then_some(())
    })
    .await;
    server.members[0].kill();
    for told in waiting.join_all().await {
        let told = format!("{told:?}");
        assert!(told.contains("refuses connections"), "{told}");
        assert!(!told.contains(expiry), "{told}");
    }
}
