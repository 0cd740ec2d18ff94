use std::collections::BTreeMap;
use std::time::Duration;

use lockwright_core::{DistributedLock, Event, Reason, ReleaseMode, Renew, Renewal, Wait};
use lockwright_redis::Redis;
use lockwright_testbed::{self as testbed, Cluster, Proxy};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::block_in_place;

use crate::common::{
    FOR_EVER, busy, call_counts, claim, claim_for, connect, events, eventually, grant, name, next,
    renewed, server_and_client, until, weak_user,
};

/// A TTL so long that each event comes from the server, not from a timer.
const LONG: Duration = Duration::from_secs(60 * 60);

/// A token in redis-py's format.
const THEIRS: &str = "0123456789abcdef0123456789abcdef";

fn tracked(server: &testbed::Redis) -> u64 {
    let info: String = server.command(&["INFO", "stats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:"));
    line.unwrap().trim().parse().unwrap()
}

async fn until_tracked(server: &testbed::Redis, keys: u64) {
    until(|| tracked(server) == keys).await;
}

async fn held(server: &testbed::Redis, redis: &Redis, locked: &str) -> lockwright_core::Claim {
    let before = tracked(server);
    let claim = claim_for(locked, LONG);
    grant(redis, &claim).await;
    renewed(redis, &claim).await;
    until_tracked(server, before + 1).await;
    claim
}

fn is_quiet(events: &mut UnboundedReceiver<Event>) {
    assert_eq!(events.try_recv().ok(), None);
}

#[tokio::test]
async fn waiter_is_woken_when_a_foreign_holder_releases() {
    let (server, redis) = server_and_client().await;
    let mut woken = events(&redis);
    for (going, left) in [
        (&["DEL", "a"][..], LONG),
        (&["UNLINK", "a"], LONG),
        (&["SET", "a", "another's", "PX", "60000"], LONG),
        (&["FLUSHALL"], LONG),
        // PING changes nothing: the server reports by itself that the lock expired.
        (&["PING"], Duration::from_millis(500)),
    ] {
        let left = left.as_millis().to_string();
        server.command::<()>(&["SET", "a", THEIRS, "PX", &left]).unwrap();
        let busy = busy(&redis, &claim("a"), FOR_EVER).await;
        assert_eq!(busy.holder.unwrap().token, None);
        if going != ["PING"] {
            assert!(busy.retry_after.unwrap() > LONG / 2, "no need to ask: {:?}", busy.retry_after);
        }
        is_quiet(&mut woken);
        server.command::<redis::Value>(going).unwrap();
        assert_eq!(next(&mut woken).await, Event::Wake(name("a")), "{going:?}");
    }
    // A lock without an expiry is polled slowly.
    server.command::<()>(&["SET", "b", THEIRS]).unwrap();
    let busy = busy(&redis, &claim("b"), FOR_EVER).await;
    assert_eq!(busy.retry_after, None);
}

#[tokio::test]
async fn tries_and_uncontended_locks_watch_nothing() {
    let (server, redis) = server_and_client().await;
    server.command::<()>(&["SET", "a", THEIRS]).unwrap();
    busy(&redis, &claim("a"), Wait::No).await;
    // A pair is an acquire and a release. The first pair loads the scripts. In the first seconds of
    // a connection, and then once a second, a pair also raises the counter to the server's clock.
    let fast = [("del", 1), ("evalsha", 2), ("incr", 1), ("mget", 1), ("set", 1)];
    let fast = BTreeMap::from(fast.map(|(command, calls)| (command.to_owned(), calls)));
    let mut raised = fast.clone();
    raised.extend([("set".to_owned(), 2), ("time".to_owned(), 1)]);
    pair(&redis).await;
    eventually(|| async {
        server.command::<()>(&["CONFIG", "RESETSTAT"]).unwrap();
        pair(&redis).await;
        assert_eq!(tracked(&server), 0);
        let mut called = call_counts(&server);
        called.retain(|command, _| !["config|resetstat", "info"].contains(&&**command));
        assert!(called == fast || called == raised, "{called:?}");
        (called == fast).then_some(())
    })
    .await;
}

async fn pair(redis: &Redis) {
    let ours = claim("b");
    grant(redis, &ours).await;
    redis.release(&ours, ReleaseMode::Plain).await.unwrap();
}

#[tokio::test]
async fn a_hold_that_somebody_takes_away_is_at_risk_at_once() {
    let (server, redis) = server_and_client().await;
    let mut told = events(&redis);
    for taking in [
        &["DEL", "a"][..],
        &["SET", "a", "theirs"],
        &["RENAME", "a", "b"],
        &["FLUSHALL"],
        &["PEXPIRE", "a", "1"],
    ] {
        let claim = held(&server, &redis, "a").await;
        server.command::<redis::Value>(taking).unwrap();
        assert_eq!(next(&mut told).await, Event::AtRisk(claim.token), "{taking:?}");
        let renewals = redis.renew(&[Renew::of(&claim)]).await.unwrap();
        assert_eq!(renewals, [Renewal::not_held(Reason::Gone)], "{taking:?}");
        server.command::<redis::Value>(&["FLUSHALL"]).unwrap();
        is_quiet(&mut told);
    }
}

#[tokio::test]
async fn harmless_setting_is_no_risk() {
    let (server, redis) = server_and_client().await;
    let mut told = events(&redis);
    let claim = held(&server, &redis, "a").await;
    let renew = async || {
        renewed(&redis, &claim).await;
        until_tracked(&server, 1).await;
    };
    renew().await;
    let value: String = server.command(&["GET", "a"]).unwrap();
    for harmless in [
        &["PEXPIRE", "a", "3000000"][..],
        &["SET", "a", &value, "KEEPTTL"],
        &["CONFIG", "SET", "tracking-table-max-keys", "1"],
    ] {
        server.command::<redis::Value>(harmless).unwrap();
        until_tracked(&server, 1).await;
    }
    server.command::<()>(&["CONFIG", "SET", "tracking-table-max-keys", "1000000"]).unwrap();
    renew().await;
    is_quiet(&mut told);
    // Like a renewal, the client's own release causes no event.
    redis.release(&claim, ReleaseMode::Plain).await.unwrap();
    let next_one = held(&server, &redis, "b").await;
    server.command::<()>(&["DEL", "b"]).unwrap();
    assert_eq!(next(&mut told).await, Event::AtRisk(next_one.token));
}

#[tokio::test]
async fn it_goes_on_after_the_connection_broke() {
    let server = testbed::Redis::start().unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    let redis = connect(&server.url_through(proxy.port())).await;
    let mut told = events(&redis);
    let (here, gone) = (held(&server, &redis, "a").await, held(&server, &redis, "b").await);
    server.command::<()>(&["SET", "c", THEIRS]).unwrap();
    busy(&redis, &claim("c"), FOR_EVER).await;

    proxy.cut();
    server.command::<()>(&["DEL", "b", "c"]).unwrap();
    is_quiet(&mut told);
    proxy.mend();
    let mut events = [next(&mut told).await, next(&mut told).await];
    events.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(events, [Event::AtRisk(gone.token), Event::Wake(name("c"))]);
    server.command::<()>(&["DEL", "a"]).unwrap();
    assert_eq!(next(&mut told).await, Event::AtRisk(here.token));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_in_a_cluster_and_when_slots_are_moved() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = connect(&cluster.url()).await;
    let mut told = events(&redis);
    let names = crate::cluster::names_of_all_masters(&cluster);
    let mut claims = Vec::new();
    for (name, node) in names.iter().zip(&cluster.nodes) {
        claims.push(held(node, &redis, name).await);
    }
    cluster.nodes[1].command::<()>(&["DEL", &names[1]]).unwrap();
    assert_eq!(next(&mut told).await, Event::AtRisk(claims[1].token));
    cluster.nodes[2].command::<()>(&["FLUSHALL"]).unwrap();
    assert_eq!(next(&mut told).await, Event::AtRisk(claims[2].token));

    // When the key moves, the old node reports a change, which must cause no event. Until the move
    // ends, the key isn't tracked.
    let to = 1;
    let before = tracked(&cluster.nodes[to]);
    let moving = cluster.begin_move(&names[0], to).unwrap();
    cluster.move_keys(&moving).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    until_tracked(&cluster.nodes[to], before + 1).await;
    is_quiet(&mut told);
    cluster.nodes[to].command::<()>(&["DEL", &names[0]]).unwrap();
    assert_eq!(next(&mut told).await, Event::AtRisk(claims[0].token));

    let to = cluster.master_of("foreign").unwrap();
    cluster.nodes[to].command::<()>(&["SET", "foreign", THEIRS]).unwrap();
    busy(&redis, &claim("foreign"), FOR_EVER).await;
    cluster.nodes[to].command::<()>(&["DEL", "foreign"]).unwrap();
    assert_eq!(next(&mut told).await, Event::Wake(name("foreign")));
}

#[tokio::test]
async fn client_without_tracking_polls_more_often() {
    let server = testbed::Redis::start().unwrap();
    server.command::<()>(&["SET", "a", THEIRS]).unwrap();
    let redis = Redis::connect(&weak_user(&server, "-client|tracking")).await.unwrap();
    let busy = busy(&redis, &claim("a"), FOR_EVER).await;
    let poll = busy.retry_after.unwrap();
    assert!((50..=500).contains(&poll.as_millis()), "{poll:?}");
    let ours = claim_for("b", LONG);
    grant(&redis, &ours).await;
    renewed(&redis, &ours).await;
    let findings = redis.doctor().await.unwrap();
    assert!(findings.iter().any(|finding| finding.code == "tracking-denied"), "{findings:?}");
    let log: Vec<redis::Value> = server.command(&["ACL", "LOG"]).unwrap();
    assert_eq!(log.len(), 1, "refused once, and not tried again: {log:?}");
}
