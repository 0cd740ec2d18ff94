use std::sync::Arc;
use std::time::Instant;

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, ErrorKind, Fault, Mode, ReleaseMode, ReleaseOutcome,
    Renew, Renewal, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::time::timeout;

use crate::common::{
    QUICK, busy, calls, claim, eventually, exists, fails, fails_with, grant, impatient, not_held,
    released, renewed, server_and_client, token_in, until,
};

async fn behind_proxy() -> (testbed::Redis, Proxy, Redis) {
    let server = testbed::Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let redis = impatient(&server.url_through(proxy.port())).await;
    (server, proxy, redis)
}

#[tokio::test]
async fn a_lost_answer_is_indeterminate_and_the_same_token_finds_its_hold() {
    let (server, proxy, redis) = behind_proxy().await;
    let claim = claim("a");
    // Cache the scripts, so that the acquire sends one request, whose reply is lost.
    let before = self::claim("before");
    grant(&redis, &before).await;
    redis.release(&before, ReleaseMode::Plain).await.unwrap();
    redis.release(&before, ReleaseMode::Reconcile).await.unwrap();
    proxy.set(Traffic::SwallowAnswers);
    fails(redis.try_acquire(&claim).await, ErrorKind::Indeterminate);
    let value: String = server.command(&["GET", "a"]).unwrap();
    assert_eq!(token_in(&value), claim.token.to_string());
    let fence: u64 = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
    proxy.set(Traffic::Forward);
    let granted = eventually(|| async { redis.try_acquire(&claim).await.ok() }).await;
    let AcquireOutcome::Granted(granted) = granted else { panic!("{granted:?}") };
    assert_eq!(granted.fence.get(), fence, "the first fence");
    let stored: u64 = server.command(&["GET", "lockwright:{a}:fence"]).unwrap();
    assert_eq!(stored, fence, "and no second one");

    proxy.set(Traffic::SwallowAnswers);
    fails(redis.release(&claim, ReleaseMode::Plain).await, ErrorKind::Indeterminate);
    proxy.set(Traffic::Forward);
    let again =
        eventually(|| async { redis.release(&claim, ReleaseMode::Reconcile).await.ok() }).await;
    assert_eq!(again, ReleaseOutcome::NotHeld);
}

#[tokio::test]
async fn a_lost_question_is_indeterminate_and_a_lost_look_is_not() {
    let (server, proxy, redis) = behind_proxy().await;
    proxy.set(Traffic::SwallowAll);
    let claim = claim("a");
    fails(redis.try_acquire(&claim).await, ErrorKind::Indeterminate);
    let started = Instant::now();
    fails(redis.inspect(&claim.name).await, ErrorKind::Unavailable);
    assert!(started.elapsed() < 4 * QUICK, "late: {:?}", started.elapsed());
    assert_eq!(server.command::<i64>(&["DBSIZE"]).unwrap(), 0);
}

#[tokio::test]
async fn the_connection_is_replaced_after_a_time_out() {
    let (_server, proxy, redis) = behind_proxy().await;
    let claim = claim("a");
    assert_eq!(proxy.accepted(), 1);
    proxy.set(Traffic::SwallowAll);
    redis.try_acquire(&claim).await.unwrap_err();
    proxy.set(Traffic::Forward);
    // The client reconnects without a request.
    eventually(|| async { (proxy.accepted() >= 2).then_some(()) }).await;
    let granted = eventually(|| async { redis.try_acquire(&claim).await.ok() }).await;
    assert!(matches!(granted, AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn a_refused_connection_is_unavailable_and_comes_back() {
    let (server, proxy, redis) = behind_proxy().await;
    let claim = claim("a");
    grant(&redis, &claim).await;
    proxy.cut();
    let refused = eventually(|| async {
        let error = redis.try_acquire(&claim).await.unwrap_err();
        (error.kind() == ErrorKind::Unavailable).then_some(error)
    })
    .await;
    assert!(refused.to_string().contains("refuses connections"), "{refused}");
    proxy.mend();
    let renewals = eventually(|| async { redis.renew(&[Renew::of(&claim)]).await.ok() }).await;
    assert_eq!(renewals, [Renewal::RENEWED]);
    drop(server);
}

#[tokio::test]
async fn many_callers_share_one_attempt_to_connect() {
    let (_server, proxy, redis) = behind_proxy().await;
    let redis = Arc::new(redis);
    proxy.set(Traffic::SwallowAll);
    redis.try_acquire(&claim("a")).await.unwrap_err();
    let started = Instant::now();
    let calls: Vec<_> = (0..50)
        .map(|i| {
            let redis = Arc::clone(&redis);
            tokio::spawn(async move { redis.try_acquire(&claim(&format!("lock {i}"))).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(started.elapsed() < 5 * QUICK, "late: one after the other: {:?}", started.elapsed());
}

#[tokio::test]
async fn dropped_callers_share_one_attempt_to_connect() {
    let server = testbed::Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let config = Config::new(&server.url_through(proxy.port())).unwrap();
    let config = config.response_timeout(QUICK).connect_timeout(20 * QUICK);
    let redis = config.connect().await.unwrap();
    proxy.set(Traffic::SwallowAll);
    redis.try_acquire(&claim("a")).await.unwrap_err();
    for _ in 0..3 {
        timeout(QUICK / 10, redis.try_acquire(&claim("a"))).await.unwrap_err();
    }
    assert_eq!(proxy.accepted(), 2, "the first connection and one attempt");
}

fn scripts_run(server: &testbed::Redis) -> u64 {
    calls(server, &["eval", "evalsha"])
}

#[tokio::test]
async fn an_acquire_that_arrives_after_its_release_is_defeated_by_the_tombstone() {
    let (server, proxy, redis) = behind_proxy().await;
    let settling = crate::common::connect(&server.url()).await;
    // Cache the script, so that the late request needs no second message.
    let before = claim("before");
    grant(&redis, &before).await;

    let late = claim("a");
    proxy.set(Traffic::Hold);
    fails(redis.try_acquire(&late).await, ErrorKind::Indeterminate);
    not_held(&settling, &late, ReleaseMode::Reconcile).await;
    let run = scripts_run(&server);
    proxy.set(Traffic::Forward);
    until(|| scripts_run(&server) > run).await;
    assert!(!exists(&server, "a"), "it did not come back");
    grant(&settling, &claim("a")).await;
}

#[tokio::test]
async fn a_frozen_server_that_thaws_leaves_nothing_that_its_release_did_not_end() {
    let server = testbed::Redis::start().unwrap();
    let redis = impatient(&server.url()).await;
    grant(&redis, &claim("before")).await;
    let claim = claim("a");
    let run = scripts_run(&server);
    server.freeze();
    fails(redis.try_acquire(&claim).await, ErrorKind::Indeterminate);
    server.thaw();
    // The earlier acquire runs before or after this release.
    eventually(|| async { redis.release(&claim, ReleaseMode::Reconcile).await.ok() }).await;
    until(|| scripts_run(&server) >= run + 2).await;
    assert!(!exists(&server, "a"), "it did not come back");
    fails(redis.try_acquire(&claim).await, ErrorKind::Lost(lockwright_core::Reason::Gone));
}

#[tokio::test]
async fn fences_grow_also_when_the_data_are_lost() {
    let (mut server, redis) = server_and_client().await;
    assert!(!redis.profile().survives.contains(Fault::ServerRestart), "nothing is logged");
    let granted = grant(&redis, &claim("a")).await;
    server.restart(false).unwrap();
    let after = eventually(|| async { redis.try_acquire(&claim("a")).await.ok() }).await;
    let AcquireOutcome::Granted(after) = after else { panic!("the data are lost: {after:?}") };
    assert!(after.fence > granted.fence, "the clock went on");
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_unavailable_and_is_looked_for_anew() {
    let (server, proxy, redis) = behind_proxy().await;
    let master = testbed::Redis::start().unwrap();
    let port = master.port().to_string();
    server.command::<()>(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let refused = eventually(|| async {
        let error = redis.try_acquire(&claim("a")).await.unwrap_err();
        error.to_string().contains("replica").then_some(error)
    })
    .await;
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    // The client reconnects, because the server's name may lead to a new master.
    eventually(|| async { (proxy.accepted() >= 2).then_some(()) }).await;
    server.command::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    grant(&redis, &claim("a")).await;
}

#[tokio::test]
async fn a_full_server_refuses_and_grants_nothing() {
    let (server, redis) = server_and_client().await;
    let held = claim("held");
    grant(&redis, &held).await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    fails_with(redis.try_acquire(&claim("a")).await, ErrorKind::Unavailable, "memory");
    assert!(!exists(&server, "a"));
    renewed(&redis, &held).await;
    released(&redis, &held, ReleaseMode::Plain).await;
}

#[tokio::test]
async fn readers_and_permits_go_on_on_a_full_server() {
    let (server, redis) = server_and_client().await;
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 1, of: 2 }];
    let holders = modes.map(|mode| Claim { mode, ..claim(&format!("{mode}")) });
    for holder in &holders {
        grant(&redis, holder).await;
    }
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let longer = holders.clone().map(|holder| Claim { ttl: holder.ttl * 2, ..holder });
    for holder in &longer {
        renewed(&redis, holder).await;
        let seen = redis.inspect(&holder.name).await.unwrap().holders.remove(0);
        assert!(seen.remaining > Some(holders[0].ttl), "{}: {seen:?}", holder.mode);
    }
    let batch: Vec<_> = holders.iter().rev().map(Renew::of).collect();
    assert_eq!(redis.renew(&batch).await.unwrap(), [Renewal::RENEWED; 3]);
    for holder in &longer {
        assert_eq!(grant(&redis, holder).await.valid, None);
        let seen = redis.inspect(&holder.name).await.unwrap().holders.remove(0);
        assert!(seen.remaining > Some(holders[0].ttl), "{}: {seen:?}", holder.mode);
        released(&redis, holder, ReleaseMode::Plain).await;
    }
}

#[tokio::test]
async fn a_frozen_server_answers_within_the_time_out() {
    let server = testbed::Redis::start().unwrap();
    let redis = impatient(&server.url()).await;
    let claim = claim("a");
    server.freeze();
    let started = Instant::now();
    fails(redis.renew(&[Renew::of(&claim)]).await, ErrorKind::Indeterminate);
    assert!(started.elapsed() < 4 * QUICK, "late: {:?}", started.elapsed());
    server.thaw();
    eventually(|| async { redis.try_acquire(&claim).await.ok() }).await;
    busy(&redis, &self::claim("a"), Wait::No).await;
}
