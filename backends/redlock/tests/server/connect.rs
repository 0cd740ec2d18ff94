use std::time::{Duration, Instant, SystemTime};

use lockwright_core::{DistributedLock, Error, ErrorKind};
#[cfg(feature = "tls")]
use lockwright_redlock::Config;
use lockwright_redlock::{NodeStatus, Redlock};
use lockwright_testbed::{self as testbed, Fleet, Proxy};

use crate::common::{Five, claim, eventually, fails, fails_with, grant};

async fn refused(urls: &[String], kind: ErrorKind, says: &str) -> Error {
    fails_with(Redlock::connect(&format!("redlock:{}", urls.join(","))).await, kind, says)
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicate_servers_and_replicas_are_refused() {
    let fleet = Fleet::start(2).unwrap();
    let proxy = Proxy::start(fleet.servers[0].address()).unwrap();
    let mut urls = fleet.urls();
    urls.push(fleet.servers[0].url_through(proxy.port()));
    refused(&urls, ErrorKind::InvalidConfig, "the same server").await;
    // Two URLs of one address are rejected before connecting, even with different databases.
    urls[2] = format!("{}3", urls[0]);
    refused(&urls, ErrorKind::InvalidConfig, "is repeated").await;
    let replica = testbed::Redis::options().replica_of(&fleet.servers[0]).start().unwrap();
    urls[2] = replica.url();
    let error = refused(&urls, ErrorKind::InvalidConfig, "replica").await;
    assert!(error.to_string().contains(&replica.address().to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minority_that_is_down_is_no_error() {
    let mut five = Five::start().await;
    five.each([0, 1], |server| server.kill());
    let redlock = five.connect().await;
    grant(&redlock, &claim("x")).await;
    let statuses = redlock.node_statuses().await;
    let down = statuses.iter().filter(|(_, is)| matches!(is, NodeStatus::Down(_))).count();
    assert_eq!(down, 2, "{statuses:?}");
    five.server(2).kill();
    fails(five.config().connect().await, ErrorKind::Unavailable);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_that_appears_later_has_no_vote() {
    let mut five = Five::start().await;
    let address = five.server(0).address();
    let proxy = Proxy::start(address).unwrap();
    five.each([1, 2], |server| server.kill());
    // Three servers run, and server 0 has two of the five addresses.
    let mut urls = five.fleet.urls();
    urls[1] = five.fleet.servers[0].url_through(proxy.port());
    proxy.cut();
    let url = format!("redlock:{}?node_timeout=500ms", urls.join(","));
    let redlock = Redlock::connect(&url).await.unwrap();
    proxy.mend();
    five.server(4).kill();
    // A second vote of server 0 would complete a quorum.
    let error = eventually(async || {
        let error = redlock.try_acquire(&claim("x")).await.unwrap_err();
        error.to_string().contains("the same server").then_some(error)
    })
    .await;
    assert!(error.to_string().contains("2 of 5 nodes granted the lock"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_reported_and_not_shown() {
    let fleet = testbed::Redis::options().password("right").start_fleet(3).unwrap();
    let urls: Vec<_> = fleet.urls().iter().map(|url| url.replace("right", "hush")).collect();
    let error = refused(&urls, ErrorKind::Denied, "").await;
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    let right = format!("redlock:{}?node_timeout=500ms", fleet.urls().join(","));
    let redlock = Redlock::connect(&right).await.unwrap();
    assert!(!format!("{redlock:?}").contains("right"), "{redlock:?}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn nodes_may_speak_tls_and_have_users() {
    let servers = testbed::Redis::options().tls().user("locks", "right", "~* &* +@all");
    let fleet = servers.start_fleet(3).unwrap();
    let node = |server: &testbed::Redis| {
        lockwright_redis::Config::new(&format!(
            "{}?ca={}",
            server.url(),
            server.authority().display()
        ))
    };
    let nodes = fleet.servers.iter().map(|server| node(server).unwrap()).collect();
    let redlock = Config::of(nodes, crate::common::options()).connect().await.unwrap();
    for (address, status) in redlock.admit().await {
        assert!(matches!(status, NodeStatus::Votes), "{address}: {status:?}");
    }
    grant(&redlock, &claim("x")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_shown_with_the_time_of_its_grant() {
    let five = Five::start().await;
    let redlock = five.connect().await;
    let (claim, before) = (claim("x"), SystemTime::now());
    grant(&redlock, &claim).await;
    let after = SystemTime::now();
    let since = redlock.inspect(&claim.name).await.unwrap().holders[0].since.unwrap();
    assert!(before < since + Duration::from_micros(1) && since < after, "{since:?}");
}
