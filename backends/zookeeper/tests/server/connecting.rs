use std::time::Duration;

use lockwright_core::{BreakMode, BreakTarget, Broken, DistributedLock, ErrorKind, RenewalMode};
use lockwright_testbed as testbed;
use lockwright_zookeeper::Config;
use tokio::net::TcpListener;
use tokio::time::Instant;
use zookeeper_client as zk;

use crate::common::{
    LIMIT, claim, connect, eventually, fails, fails_with, grant, name, node_of, patient,
    persistent, raw, server_and_client,
};

const SECRET: &str = "hush";

#[test]
fn url_errors_name_the_problem_without_secrets() {
    for (url, says) in [
        (format!("zookeeper:u:{SECRET}@"), "host is missing"),
        (format!("zookeeper:u:{SECRET}@a,,b"), "host is missing"),
        (format!("zookeeper:u:{SECRET}@a:x"), "the port \"x\""),
        (format!("zookeeper:u:{SECRET}@a:0"), "the port \"0\""),
        (format!("zookeeper:u:{SECRET}@a,a:2181"), "a:2181 is listed twice"),
        (format!("zookeeper:u:{SECRET}/x@a"), "%2F"),
        (format!("zookeeper:u:{SECRET}?x@a"), "%3F"),
        (format!("zookeeper:u:{SECRET}#x@a"), "%23"),
        (format!("zookeeper:u:{SECRET}%4@a"), "percent-encoded"),
        (format!("zookeeper:u%3Au:{SECRET}@a"), "has a colon"),
        ("zookeeper:u@a".to_owned(), "without a password"),
        ("zookeeper:u:@a".to_owned(), "is empty"),
        (format!("zookeeper://me:{SECRET}"), "not a port"),
        ("zookeeper:a/b//c".to_owned(), "isn't a node path"),
        ("zookeeper:a/b/../c".to_owned(), "isn't a node path"),
        ("zookeeper:a?prefix=locks".to_owned(), "isn't a node path"),
        ("zookeeper:a?prefix=".to_owned(), "prefix=/"),
        ("zookeeper:a?tick=soon".to_owned(), "not a time"),
        ("zookeeper:a?tick=0".to_owned(), "not a time"),
        ("zookeeper:a?tick=1000000000000d".to_owned(), "not a time"),
        ("zookeeper:a?tick=1s&tick=1s".to_owned(), "twice"),
        ("zookeeper:a?timeout=1s".to_owned(), "\"timeout\" is unknown (use prefix, tick, ca"),
        ("zookeper:a".to_owned(), "no ZooKeeper URL"),
    ] {
        let error = Config::new(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        let text = error.to_string();
        assert!(text.contains(says), "{url}: {text}");
        assert!(!text.contains(SECRET), "{url}: {text}");
        assert!(text.contains("can't be used: "), "{text}");
        assert!(text.contains("zookeeper:[user:password@]host"), "{text}");
        for parameter in ["prefix=", "tick=", "ca=", "cert=", "key="] {
            assert!(text.contains(parameter), "{text}");
        }
    }
    let shown = format!("{:#?}", Config::new(&format!("zookeeper:u:{SECRET}@a:1,b/c")).unwrap());
    assert!(!shown.contains(SECRET) && shown.contains("a:1,b/c"), "{shown}");
}

#[tokio::test]
async fn too_long_times_are_rejected_or_capped() {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    let config = Config::new(&server.url()).unwrap();
    for tick in [Duration::MAX, Duration::from_secs(60 * 60 * 24 * 25), Duration::from_micros(1)] {
        fails_with(config.clone().tick(tick).connect().await, ErrorKind::InvalidConfig, "tick");
    }
    // Even if the tick exceeds every session timeout, nothing overflows.
    let tick = Duration::from_millis(i32::MAX.unsigned_abs().into());
    let config = config.tick(tick).response_timeout(Duration::MAX).connect_timeout(Duration::MAX);
    let zookeeper = config.idle_timeout(Duration::MAX).connect().await.unwrap();
    assert_eq!(*zookeeper.profile().ttl.start(), tick * 4);
    let mut held = claim("x");
    held.renewal_mode = RenewalMode::Off;
    grant(&zookeeper, &held).await;
    let how = BreakMode::RunOut;
    let broken =
        zookeeper.break_lock(&held.name, BreakTarget::Any, how, "me", "why").await.unwrap();
    assert!(matches!(broken, Broken::RunsOut(left) if left > tick * 4), "{broken:?}");
}

/// Returns the error of a connection attempt, which must fail before its timeouts.
async fn not_connected(url: &str) -> String {
    let begun = Instant::now();
    let config = Config::new(url).unwrap().connect_timeout(LIMIT);
    let error = fails(config.connect().await, ErrorKind::Unavailable);
    assert!(begun.elapsed() < LIMIT, "late: {error}");
    error.to_string()
}

#[tokio::test]
async fn unreachable_servers_are_reported_quickly() {
    let told = not_connected("zookeeper:127.0.0.1:1,127.0.0.1:2,no-such-host.invalid").await;
    assert!(told.contains("each of 127.0.0.1:1, 127.0.0.1:2 refuses connections"), "{told}");
    assert!(
        told.contains("no-such-host.invalid:2181 has a host name that can't be resolved"),
        "{told}"
    );
}

#[tokio::test]
async fn servers_without_sessions_are_distinguished_from_unreachable_ones() {
    let connect = async |url: &str| {
        let config = Config::new(url).unwrap().connect_timeout(Duration::from_millis(300));
        config.connect().await.unwrap_err().to_string()
    };
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mute = mute.local_addr().map(|address| (mute, address)).unwrap();
    let told = connect(&format!("zookeeper:127.0.0.1:1,{}", mute.1)).await;
    assert!(told.contains("127.0.0.1:1 refuses connections"), "{told}");
    assert!(told.contains(&format!("{} is reachable but gives no session", mute.1)), "{told}");
    assert!(told.contains("zookeeper+tls"), "{told}");
    let mut ensemble = testbed::ZooKeeper::start().unwrap();
    ensemble.members[0].kill();
    ensemble.members[1].kill();
    let alone = ensemble.members[2].address().to_string();
    let told = eventually(|| async {
        let told = connect(&format!("zookeeper:{alone}")).await;
        told.contains("finds no quorum").then_some(told)
    })
    .await;
    assert!(told.contains(&alone), "{told}");
}

#[tokio::test]
async fn ttl_range_matches_the_servers_grants() {
    let tick = Duration::from_millis(300);
    let server = testbed::ZooKeeper::options().members(1).tick(tick).start().unwrap();
    let zookeeper = connect(&server.url()).await;
    let range = zookeeper.profile().ttl.clone();
    assert_eq!(range, tick * 4..=Duration::from_secs(40), "two ticks, and four for the proof");
    let slower = connect(&format!("{}?tick=1s", server.url())).await;
    assert_eq!(*slower.profile().ttl.start(), Duration::from_secs(4));
    // The session's timeout is the TTL in whole milliseconds, rounded up.
    let mut claim = claim("x");
    claim.ttl = Duration::from_micros(2_000_100);
    grant(&zookeeper, &claim).await;
    let sessions = server.four_letter(0, "cons").unwrap();
    assert!(sessions.contains("to=2001,"), "{sessions}");
}

#[tokio::test]
async fn locks_are_below_the_prefix_and_the_chroot() {
    let (server, zookeeper) = server_and_client().await;
    let raw = raw(&server.url()).await;
    raw.create("/up", b"", &persistent()).await.unwrap();
    let url = server.url();
    let (here, rooted) = (claim("orders/42"), claim("orders/42"));
    let below = connect(&format!("{url}/up?prefix=/locks/of%20mine")).await;
    let at_root = connect(&format!("{url}/up?prefix=/")).await;
    grant(&below, &here).await;
    grant(&at_root, &rooted).await;
    grant(&zookeeper, &claim("orders/42")).await;
    let nodes = raw.list_children("/up/locks/of mine/orders%2F42").await.unwrap();
    assert!(nodes.len() == 1 && nodes[0].starts_with(&node_of(&here)), "{nodes:?}");
    let nodes = raw.list_children("/up/orders%2F42").await.unwrap();
    assert!(nodes.len() == 1 && nodes[0].starts_with(&node_of(&rooted)), "{nodes:?}");
    for zookeeper in [&below, &at_root] {
        let listed = zookeeper.list("", None).await.unwrap().names;
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0].name, name("orders/42"));
    }
}

#[tokio::test]
async fn unreadable_locks_are_skipped_in_lists_and_denied_by_name() {
    let server = testbed::ZooKeeper::options().members(1).start().unwrap();
    let url = server.url();
    let connector = zk::Client::connector().with_auth("digest", b"broker:secret");
    let broker = connector.connect(url.strip_prefix("zookeeper:").unwrap()).await.unwrap();
    let options = zk::CreateMode::Persistent.with_acls(zk::Acls::creator_all());
    broker.create("/brokers", b"", &options).await.unwrap();
    let zookeeper = connect(&format!("{url}?prefix=/")).await;
    for held in ["a", "x"] {
        grant(&zookeeper, &claim(held)).await;
    }
    let listed = zookeeper.list("", None).await.unwrap().names;
    let names: Vec<&str> = listed.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["a", "x"]);
    fails(zookeeper.inspect(&name("brokers")).await, ErrorKind::Denied);
}

/// A lock needs ephemeral nodes, which local sessions can't create.
#[tokio::test(flavor = "multi_thread")]
async fn local_sessions_are_refused_unless_they_become_global() {
    let options = testbed::ZooKeeper::options().set("localSessionsEnabled", "true");
    let upgrading = "localSessionsUpgradingEnabled";
    let ensemble = options.clone().set(upgrading, "true").start().unwrap();
    grant(&connect(&ensemble.url()).await, &claim("x")).await;
    drop(ensemble);
    let ensemble = options.set(upgrading, "false").start().unwrap();
    let zookeeper = connect(&ensemble.url()).await;
    fails_with(zookeeper.try_acquire(&claim("x")).await, ErrorKind::Unsupported, upgrading);
    let findings = zookeeper.doctor().await.unwrap();
    let finding = &findings[0];
    let expected = ("zookeeper-local-sessions", lockwright_core::Severity::Error);
    assert_eq!((finding.code, finding.severity), expected, "{findings:?}");
}

#[tokio::test]
async fn a_missing_chroot_is_named() {
    let (server, _) = server_and_client().await;
    let url = format!("{}/nowhere", server.url());
    let is_named = |error: lockwright_core::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        assert!(error.to_string().contains("chroot of the URL, /nowhere, is not"), "{error}");
    };
    is_named(patient(Config::new(&url).unwrap()).connect().await.unwrap_err());
    // The error is the same if the chroot is removed after the client connected.
    let raw = raw(&server.url()).await;
    raw.create("/nowhere", b"", &persistent()).await.unwrap();
    let zookeeper = connect(&url).await;
    raw.delete("/nowhere", None).await.unwrap();
    is_named(zookeeper.try_acquire(&claim("x")).await.unwrap_err());
    is_named(zookeeper.inspect(&name("x")).await.unwrap_err());
    is_named(zookeeper.list("", None).await.unwrap_err());
}
