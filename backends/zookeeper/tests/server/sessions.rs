use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    BreakMode, BreakTarget, Broken, Clock, DistributedLock, ErrorKind, Event, ReleaseMode, Renew,
    RenewalMode, RenewalOutcome, Wait,
};
use lockwright_testbed::proxy::{Proxy, Traffic};
use lockwright_zookeeper::Config;
use tokio::task::JoinSet;

use crate::common::{
    Cluster, FOR_EVER, TTL, busy, claim, claim_for, cluster_and_client, connect, events,
    eventually, grant, granted_soon, next, one_server, patient, raw, released, renew, renewed,
    renewed_soon, server_and_client, server_and_proxy, sessions,
};

#[tokio::test]
async fn claims_of_one_ttl_share_a_session_except_fixed_ones() {
    let (server, zookeeper) = server_and_client().await;
    let tick = Duration::from_millis(200);
    for number in 0..20 {
        grant(&zookeeper, &claim(&format!("x{number}"))).await;
    }
    assert_eq!(sessions(&server, TTL), 1);
    grant(&zookeeper, &claim_for("y", TTL * 2)).await;
    for number in 0..3 {
        let mut fixed = claim(&format!("f{number}"));
        fixed.renewal_mode = RenewalMode::Off;
        grant(&zookeeper, &fixed).await;
    }
    let all = [TTL, TTL * 2, TTL + tick * 3].map(|timeout| sessions(&server, timeout));
    assert_eq!(all, [1, 1, 1]);
}

/// A caller of `renew` waits for a limited time, and then treats the whole batch as unanswered.
#[tokio::test]
async fn a_session_that_is_silent_holds_up_no_renewals_of_others() {
    let (_server, proxy, url) = server_and_proxy();
    let zookeeper = connect(&url).await;
    let (one, other) = (claim_for("x", TTL * 2), claim_for("y", TTL * 4));
    grant(&zookeeper, &one).await;
    let connection = proxy.accepted();
    grant(&zookeeper, &other).await;
    proxy.keep_requests_of(Some(connection));
    let begun = Instant::now();
    let batch = [Renew::of(&other), Renew::of(&one)];
    let renewals = zookeeper.renew(&batch).await.unwrap();
    assert!(begun.elapsed() < batch[1].patience, "late: {:?}", begun.elapsed());
    assert_eq!(renewals[0].outcome, RenewalOutcome::Indeterminate);
    assert!(matches!(renewals[1].outcome, RenewalOutcome::Renewed { .. }), "{renewals:?}");
    assert!(proxy.kept_requests() > 0);
}

#[tokio::test]
async fn only_unused_sessions_are_closed() {
    let server = one_server();
    let config = patient(Config::new(&server.url()).unwrap());
    let zookeeper = config.idle_timeout(Duration::from_millis(500)).connect().await.unwrap();
    let (held, other) = (claim("x"), claim_for("y", TTL * 2));
    grant(&zookeeper, &other).await;
    grant(&zookeeper, &held).await;
    zookeeper.release(&other, ReleaseMode::Plain).await.unwrap();
    eventually(|| async { (sessions(&server, TTL * 2) == 0).then_some(()) }).await;
    renewed(&zookeeper, &held).await;
    grant(&zookeeper, &claim("z")).await;
    assert_eq!(
        sessions(&server, TTL),
        1,
        "something is held in it, so it is the one for others too"
    );
    grant(&zookeeper, &claim_for("y", TTL * 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_share_a_failed_session() {
    let (server, proxy, url) = server_and_proxy();
    let config = Config::new(&url).unwrap().connect_timeout(Duration::from_secs(1));
    let config = config.idle_timeout(Duration::from_millis(100));
    let zookeeper = config.connect().await.unwrap();
    // The session for reads would reconnect and be counted, so wait for its end.
    let longest = *zookeeper.profile().ttl.end();
    eventually(|| async { (sessions(&server, longest) == 0).then_some(()) }).await;
    proxy.set(Traffic::SwallowAll);
    let (zookeeper, mut opened) = (Arc::new(zookeeper), Vec::new());
    for callers in [1, 20] {
        let before = proxy.accepted();
        let mut asking = JoinSet::new();
        for _ in 0..callers {
            let zookeeper = Arc::clone(&zookeeper);
            asking.spawn(async move { zookeeper.try_acquire(&claim("x")).await });
        }
        for answer in asking.join_all().await {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("no session could be opened"), "{error}");
        }
        opened.push(proxy.accepted() - before);
    }
    // A caller after the first failure makes a second attempt, which all later callers share.
    assert!(0 < opened[0] && opened[1] <= opened[0] * 2, "{opened:?} connections");
    // The client doesn't remember the failure.
    proxy.set(Traffic::Forward);
    proxy.drop_connections();
    eventually(|| async { zookeeper.try_acquire(&claim("x")).await.ok() }).await;
}

#[tokio::test]
async fn a_fixed_hold_is_valid_for_its_whole_ttl() {
    let (_server, zookeeper) = server_and_client().await;
    for number in 0..5 {
        let mut fixed = claim(&format!("x{number}"));
        fixed.renewal_mode = RenewalMode::Off;
        let valid = grant(&zookeeper, &fixed).await.valid;
        // Allow for a late proof on a busy machine.
        assert!(valid.is_some_and(|valid| valid > TTL - TTL / 8), "in round {number}: {valid:?}");
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// The servers keep a dead client's session for its timeout and up to a tick more. The reported
/// remaining time must cover both.
#[tokio::test]
async fn remaining_time_of_a_broken_hold_covers_its_session() {
    let (server, zookeeper) = server_and_client().await;
    let (raw, tick) = (raw(&server.url()).await, Duration::from_millis(200));
    for (locked, renewal_mode) in [("x", RenewalMode::Auto), ("y", RenewalMode::Off)] {
        let mut held = claim(locked);
        held.renewal_mode = renewal_mode;
        grant(&zookeeper, &held).await;
        let queue = format!("/lockwright/{locked}");
        let node = format!("{queue}/{}", raw.list_children(&queue).await.unwrap()[0]);
        let stat = raw.check_stat(&node).await.unwrap().unwrap();
        let listed = server.four_letter(0, "cons").unwrap();
        let session = format!("sid=0x{:x},", stat.ephemeral_owner);
        let session = listed.lines().find(|line| line.contains(&session)).unwrap();
        let timeout = session.split_once("to=").unwrap().1.split_once(',').unwrap().0;
        let timeout = Duration::from_millis(timeout.parse().unwrap());
        let (seen, how) = (BreakTarget::Token(held.token), BreakMode::RunOut);
        let broken = zookeeper.break_lock(&held.name, seen, how, "me", "why").await.unwrap();
        let Broken::RunsOut(left) = broken else { panic!("{broken:?}") };
        assert!(left >= timeout + tick, "{left:?} of a session of {timeout:?}");
    }
}

#[tokio::test]
async fn a_renewal_is_valid_from_a_request_that_is_a_tick_old() {
    let (_server, zookeeper) = server_and_client().await;
    let (clock, tick) = (Clock::boot(), Duration::from_millis(200));
    let held = claim("x");
    let begun = clock.now();
    grant(&zookeeper, &held).await;
    let mut least = TTL;
    while clock.now() < begun + TTL * 2 {
        let sent = clock.now();
        let RenewalOutcome::Renewed { valid: Some(valid) } = renew(&zookeeper, &held).await else {
            panic!("it is held");
        };
        let (age, took) = (sent.saturating_since(begun), clock.now().saturating_since(sent));
        // A new session is proven at once. Later proofs are at least a tick old.
        assert!(valid + tick <= TTL + took || age < tick * 3, "{valid:?} after {age:?}");
        least = least.min(valid);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(least > TTL / 3, "only {least:?} were left at some time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_cut_off_is_a_risk_and_another_takes_its_place() {
    let (ensemble, other) = cluster_and_client().await;
    let proxies: Vec<Proxy> =
        ensemble.members.iter().map(|member| Proxy::start(member.address()).unwrap()).collect();
    let ways = ensemble.url_through(proxies.iter().map(Proxy::port));
    let config = Config::new(&ways).unwrap().response_timeout(Duration::from_millis(500));
    let zookeeper = config.connect().await.unwrap();
    let mut told = events(&zookeeper);
    let long = TTL * 3;
    let (one, two) = (claim_for("x", long), claim_for("y", long));
    let fence = grant(&zookeeper, &one).await.fence;
    grant(&zookeeper, &two).await;
    proxies.iter().for_each(Proxy::drop_connections);
    let at_risk = [next(&mut told).await, next(&mut told).await];
    for hold in [&one, &two] {
        assert!(at_risk.contains(&Event::AtRisk(hold.token)), "{at_risk:?}");
    }
    renewed_soon(&zookeeper, &one).await;
    renewed(&zookeeper, &two).await;
    proxies.iter().for_each(Proxy::cut);
    granted_soon(&other, &claim("x"), Wait::No).await;
    proxies.iter().for_each(Proxy::mend);
    let gone = renew(&zookeeper, &one).await;
    assert!(matches!(gone, RenewalOutcome::NotHeld(_)), "{gone:?}");
    let again = claim_for("y", long);
    assert!(granted_soon(&zookeeper, &again, Wait::No).await.fence > fence);
}

#[tokio::test]
async fn holds_outlive_the_backend_and_waiters_do_not() {
    let (server, zookeeper) = server_and_client().await;
    let other = connect(&server.url()).await;
    let (held, waiting) = (claim("x"), claim("y"));
    let blocking = claim_for("y", TTL * 4);
    grant(&other, &blocking).await;
    let begun = Clock::boot().now();
    grant(&zookeeper, &held).await;
    busy(&zookeeper, &waiting, FOR_EVER).await;
    drop(zookeeper);
    eventually(|| async {
        let waiters = other.inspect(&waiting.name).await.unwrap().waiters;
        (waiters == Some(0)).then_some(())
    })
    .await;
    let is_free = async || other.inspect(&held.name).await.unwrap().holders.is_empty();
    assert!(!is_free().await, "it is still held");
    eventually(|| async { is_free().await.then_some(()) }).await;
    assert!(Clock::boot().now() >= begun + TTL);
    eventually(|| async { (sessions(&server, TTL) == 0).then_some(()) }).await;
    released(&other, &blocking, ReleaseMode::Plain).await;
}

/// Two sessions have the longest timeout: the hold's, and the one for reads.
#[tokio::test]
async fn the_longest_ttl_is_renewed_too() {
    let (shortest, longest) = (Duration::from_millis(400), Duration::from_secs(4));
    let server = Cluster::options().members(1).sessions(shortest, longest);
    let server = server.start().unwrap();
    let zookeeper = connect(&server.url()).await;
    assert_eq!(*zookeeper.profile().ttl.end(), longest);
    let held = claim_for("x", longest);
    grant(&zookeeper, &held).await;
    assert_eq!(sessions(&server, longest), 2);
    for _ in 0..6 {
        tokio::time::sleep(longest / 4).await;
        let RenewalOutcome::Renewed { valid: Some(valid) } = renew(&zookeeper, &held).await else {
            panic!("it is held");
        };
        assert!(valid > longest / 4, "only {valid:?} are left");
    }
}
