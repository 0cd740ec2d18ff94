//! Waiters of several clients, some of which are dead or silent. The conformance suite kills and
//! stops real processes (`order::dead_processes_are_passed_over`).

use std::time::{Duration, Instant};

use lockwright_core::{DistributedLock, Locks, ReleaseMode};
use lockwright_redis::Redis;
use lockwright_testbed as testbed;
use tokio::task::JoinSet;

use crate::common::{
    FOR_EVER, busy, claim_for, connect, count_calls, eventually, grant, name, released,
    server_and_client,
};

async fn until_waiting(observer: &Redis, count: u64) {
    let seen = async || observer.inspect(&name("a")).await.unwrap().waiters;
    eventually(async || (seen().await == Some(count)).then_some(())).await;
}

fn requests(server: &testbed::Redis) -> u64 {
    let asked = ["evalsha", "eval", "subscribe", "client|caching", "client|tracking", "hello"];
    count_calls(server, &asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_of_four_clients_ask_next_to_nothing() {
    let (server, holder) = server_and_client().await;
    // No renewal is due during the test.
    let held = claim_for("a", Duration::from_secs(600));
    grant(&holder, &held).await;
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let locks = Locks::new(connect(&server.url()).await).unwrap();
        for _ in 0..25 {
            let locks = locks.clone();
            waiting.spawn(async move {
                let guard = locks.mutex("a").no_limit().acquire().await.unwrap();
                guard.release().await.unwrap();
            });
        }
    }
    // Only the first waiter of each client is in the server's queue.
    until_waiting(&holder, 4).await;
    let before = requests(&server);
    assert!(before > 0, "it counts nothing");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = requests(&server) - before;
    assert!(asked <= 10, "{asked} requests in 10 s");
    released(&holder, &held, ReleaseMode::Plain).await;
    assert_eq!(waiting.join_all().await.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_waiters_in_a_row_cost_one_offer_each() {
    const TTL: Duration = Duration::from_secs(1);
    const SILENT: u32 = 7;

    let (server, dead) = server_and_client().await;
    let silent = connect(&server.url()).await;
    let locks = Locks::new(connect(&server.url()).await).unwrap();
    let begun = Instant::now();
    grant(&dead, &claim_for("a", TTL * 3)).await;
    drop(dead);
    // Like a stopped process, this client confirms no offer, and doesn't request again.
    for _ in 0..SILENT {
        busy(&silent, &claim_for("a", TTL), FOR_EVER).await;
    }
    let guard = locks.mutex("a").acquire().await.unwrap();
    let took = begun.elapsed();
    assert!(took >= TTL * SILENT, "a waiter was skipped: {took:?}");
    // The dead holder's TTL, an offer's lifetime per silent waiter, and one second.
    assert!(took <= TTL * (3 + SILENT) + Duration::from_secs(1), "late: {took:?}");
    guard.release().await.unwrap();
}

/// The client whose release made the offer dies before the offer lapses. The waiters must wait only
/// for the offer, although their last replies show the released hold's long TTL.
#[tokio::test(flavor = "multi_thread")]
async fn dead_releaser_of_a_long_hold_costs_one_offer() {
    const OFFER: Duration = Duration::from_secs(2);

    let (server, holder) = server_and_client().await;
    let silent = connect(&server.url()).await;
    let locks = Locks::new(connect(&server.url()).await).unwrap();
    let held = claim_for("a", Duration::from_secs(60));
    grant(&holder, &held).await;
    busy(&silent, &claim_for("a", held.ttl), FOR_EVER).await;
    let waiting = tokio::spawn(locks.mutex("a").ttl(held.ttl).acquire());
    until_waiting(&silent, 2).await;
    released(&holder, &held, ReleaseMode::Plain).await;
    drop(holder);
    let died = Instant::now();
    let guard = waiting.await.unwrap().unwrap();
    assert!(died.elapsed() <= OFFER + Duration::from_secs(1), "late: {:?}", died.elapsed());
    guard.release().await.unwrap();
}
