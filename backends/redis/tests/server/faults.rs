use std::sync::Arc;
use std::time::Instant;

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, ErrorKind, ReleaseMode, ReleaseOutcome, Renew, Renewal,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy};
use tokio::time::timeout;

use crate::common::{
    MODES, QUICK, claim, eventually, exists, fails, fails_with, grant, impatient, released,
    renewed, server_and_client, token_in, until,
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
async fn lost_request_is_indeterminate_and_its_connection_is_replaced() {
    let (server, proxy, redis) = behind_proxy().await;
    let claim = claim("a");
    assert_eq!(proxy.accepted(), 1);
    proxy.set(Traffic::SwallowAll);
    fails(redis.try_acquire(&claim).await, ErrorKind::Indeterminate);
    // The client reconnects without a request.
    until(|| proxy.accepted() >= 2).await;
    let started = Instant::now();
    fails(redis.inspect(&claim.name).await, ErrorKind::Unavailable);
    assert!(started.elapsed() < 4 * QUICK, "late: {:?}", started.elapsed());
    assert_eq!(server.command::<i64>(&["DBSIZE"]).unwrap(), 0);
    proxy.set(Traffic::Forward);
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
async fn holds_go_on_on_a_full_server() {
    let (server, redis) = server_and_client().await;
    let holders = MODES.map(|mode| Claim { mode, ..claim(&format!("{mode}")) });
    for holder in &holders {
        grant(&redis, holder).await;
    }
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    fails_with(redis.try_acquire(&claim("a")).await, ErrorKind::Unavailable, "memory");
    assert!(!exists(&server, "a"));
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
