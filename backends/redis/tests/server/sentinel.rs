use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, DistributedLock, ErrorKind, Fault, HoldState, Locks, Reason, ReleaseMode,
    ReleaseOutcome, Renew, Renewal, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::{self as testbed, Proxy, Sentinels};

use crate::common::{
    FOR_EVER, QUICK, busy, claim, claim_for, connect, events, eventually, exists, fails, grant,
    handed, name, released, token_in, until,
};
use crate::connect::{SECRET, wrong};
use crate::replicas::kill_what_waits;

async fn impatient(set: &Sentinels) -> Redis {
    let config = Config::new(&set.url()).unwrap().response_timeout(QUICK);
    config.connect().await.unwrap()
}

async fn wait_for(server: &testbed::Redis, key: &str, token: &str) {
    let found = || server.command::<Option<String>>(&["GET", key]).unwrap();
    until(|| found().as_deref().map(token_in) == Some(token)).await;
}

/// Returns whether the client listens to each Sentinel. Only this client subscribes with RESP3.
fn all_are_listened_to(set: &Sentinels) -> bool {
    set.sentinels.iter().all(|sentinel| {
        let clients: String = sentinel.command(&["CLIENT", "LIST"]).unwrap();
        clients.lines().any(|client| client.contains(" sub=1 ") && client.contains(" resp=3"))
    })
}

async fn off_the_runtime<T: Send + 'static>(
    set: Sentinels,
    job: impl FnOnce(&mut Sentinels) -> T + Send + 'static,
) -> (Sentinels, T) {
    let job = move || {
        let mut set = set;
        let end = job(&mut set);
        (set, end)
    };
    tokio::task::spawn_blocking(job).await.unwrap()
}

/// Stops replication, and discards data in the replica's socket.
fn cut_replication(set: &Sentinels) {
    set.servers[1].freeze();
    set.servers[0].command::<i64>(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap();
}

async fn fail_over(set: Sentinels) -> Sentinels {
    let (set, ()) = off_the_runtime(set, |set| {
        set.servers[0].kill();
        set.servers[1].thaw();
        assert_eq!(set.wait_for_failover(0).unwrap(), 1);
    })
    .await;
    set
}

#[tokio::test]
async fn the_master_is_found_and_the_next_one_too() {
    let set = Sentinels::start().unwrap();
    let redis = connect(&set.url()).await;
    assert_eq!(redis.profile().backend, "redis-sentinel");
    for fault in [Fault::ServerRestart, Fault::Failover, Fault::ServerDataLoss] {
        assert!(!redis.profile().survives.contains(fault), "{fault:?}");
    }
    let ours = claim("a");
    let granted = grant(&redis, &ours).await;
    wait_for(&set.servers[1], "a", &ours.token.to_string()).await;

    let set = fail_over(set).await;
    let renewals = eventually(|| async { redis.renew(&[Renew::of(&ours)]).await.ok() }).await;
    assert_eq!(renewals, [Renewal::RENEWED]);
    busy(&redis, &claim("a"), Wait::No).await;
    released(&redis, &ours, ReleaseMode::Plain).await;
    let next = grant(&redis, &claim("a")).await;
    assert!(next.fence > granted.fence, "{next:?} after {granted:?}");
    assert_eq!(set.servers[1].command::<i64>(&["EXISTS", "a"]).unwrap(), 1);
}

#[tokio::test]
async fn handed_over_hold_is_requested_again() {
    let set = Sentinels::start().unwrap();
    let redis = connect(&set.url()).await;
    let mut told = events(&redis);
    let (held, waits) = (claim("a"), claim("a"));
    grant(&redis, &held).await;
    assert!(busy(&redis, &waits, FOR_EVER).await.queued);
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    let (token, granted) = handed(&mut told).await;
    assert_eq!((token, granted.valid), (waits.token, Some(Duration::ZERO)), "its client asks");
    assert_eq!(grant(&redis, &waits).await.valid, None);
}

#[tokio::test]
async fn sentinels_that_are_frozen_or_dead_cost_little() {
    let mut set = Sentinels::start().unwrap();
    set.sentinels[0].freeze();
    let started = Instant::now();
    connect(&set.url()).await;
    // Two of three answers suffice, so the client doesn't wait for the frozen Sentinel.
    assert!(started.elapsed() < 5 * QUICK, "late: {:?}", started.elapsed());

    set.sentinels[1].kill();
    let config = Config::new(&set.url()).unwrap().connect_timeout(4 * QUICK);
    config.connect().await.expect("the one that is left knows the master");
}

#[tokio::test]
async fn wrong_settings_of_sentinels_are_reported() {
    let (servers, other) = (testbed::Redis::options().password(SECRET), format!("other-{SECRET}"));
    let set = Sentinels::options().servers(servers).sentinel_password(&other).start().unwrap();
    let url = set.url();
    let error = wrong(&url, ErrorKind::Denied, "sentinel_password").await;
    assert!(error.to_string().starts_with("redis-sentinel: "), "{error}");
    wrong(&format!("{url}?sentinel_password={SECRET}"), ErrorKind::Denied, "refuses").await;
    let url = format!("{url}?sentinel_password={other}");
    wrong(&format!("{url}&sentinel_user=nobody"), ErrorKind::Denied, "").await;
    let redis = connect(&url).await;
    assert!(!format!("{redis:?}").contains(SECRET), "{redis:?}");
    grant(&redis, &claim("a")).await;

    let wrong_login = url.replace(&format!(":{SECRET}@"), ":x@");
    wrong(&wrong_login, ErrorKind::Denied, "the master of").await;
    wrong(&url.replace("/lockwright", "/mymaster"), ErrorKind::InvalidConfig, "\"mymaster\"").await;

    let ports = [testbed::port::free(), testbed::port::free()];
    let error = wrong(&set.url_through(ports), ErrorKind::Unavailable, "").await;
    for port in ports {
        assert!(error.to_string().contains(&format!(":{port} refuses connections")), "{error}");
    }
    let server = testbed::Redis::start().unwrap();
    wrong(&set.url_through([server.port()]), ErrorKind::InvalidConfig, "not a Sentinel").await;
}

#[tokio::test]
async fn a_master_that_was_frozen_over_a_failover_is_not_trusted() {
    let set = Sentinels::start().unwrap();
    let (asking, idle) = (impatient(&set).await, impatient(&set).await);
    let ttl = Duration::from_secs(8);
    let ours = claim_for("a", ttl);
    grant(&asking, &ours).await;
    grant(&idle, &claim("idle")).await;
    wait_for(&set.servers[1], "a", &ours.token.to_string()).await;

    set.servers[0].freeze();
    let renewing = async {
        let mut renewed = 0;
        loop {
            match asking.renew(&[Renew::of(&ours)]).await {
                Ok(renewals) => {
                    assert_eq!(renewals, [Renewal::RENEWED], "after {renewed}");
                    renewed += 1;
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::Denied, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let frozen = Instant::now();
    let watching = async {
        let (set, master) = off_the_runtime(set, |set| set.wait_for_failover(0).unwrap()).await;
        assert_eq!(master, 1);
        // The old master resumes after its hold has expired.
        tokio::time::sleep((ttl + QUICK).saturating_sub(frozen.elapsed())).await;
        set.servers[0].thaw();
        let thawed = Instant::now();
        let mut asked = 0;
        while thawed.elapsed() < 2 * QUICK {
            // An idle client still has a connection to the old master.
            match idle.try_acquire(&claim("a")).await {
                Ok(AcquireOutcome::Granted(granted)) => panic!("by the old master: {granted:?}"),
                Ok(AcquireOutcome::Busy(_)) => asked += 1,
                Err(_) => {}
            }
        }
        assert!(asked > 0, "somebody answered");
        set
    };
    tokio::select! {
        set = watching => drop(set),
        () = renewing => {}
    }
}

/// The client misses a failover, because its connections to the Sentinels are silent.
#[tokio::test]
async fn a_master_is_not_trusted_because_nobody_can_say_otherwise() {
    let set = Sentinels::start().unwrap();
    let proxies: Vec<_> =
        set.sentinels.iter().map(|sentinel| Proxy::start(sentinel.address()).unwrap()).collect();
    let url = set.url_through(proxies.iter().map(Proxy::port));
    let redis = Config::new(&url).unwrap().response_timeout(QUICK).connect().await.unwrap();
    grant(&redis, &claim("before")).await;
    eventually(|| async { all_are_listened_to(&set).then_some(()) }).await;

    proxies.iter().for_each(|proxy| proxy.set(Traffic::SwallowAll));
    set.servers[0].freeze();
    let (set, master) = off_the_runtime(set, |set| set.wait_for_failover(0).unwrap()).await;
    assert_eq!(master, 1);
    for proxy in &proxies {
        assert!(proxy.wait_for_swallowed_answer(), "the news of it");
        proxy.set(Traffic::Forward);
    }
    // After this reset, the Sentinels don't demote the old master.
    for sentinel in &set.sentinels {
        sentinel.command::<i64>(&["SENTINEL", "RESET", set.master_name()]).unwrap();
    }
    set.servers[0].thaw();
    eventually(|| async {
        let ours = claim(&format!("a {:?}", Instant::now()));
        redis.try_acquire(&ours).await.ok()?;
        exists(&set.servers[1], ours.name.as_str()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nothing_is_granted_while_two_connections_lead_to_two_masters() {
    let set = Sentinels::start().unwrap();
    let other = testbed::Redis::start().unwrap();
    let url = format!("{}?replicas=1", set.url());
    let redis = connect(&url).await;
    // After subscribing, the client asks the Sentinels for the master once. Wait until it has.
    eventually(|| async { all_are_listened_to(&set).then_some(()) }).await;
    let is_asked = |sentinel: &testbed::redis::Sentinel| {
        let clients: String = sentinel.command(&["CLIENT", "LIST"]).unwrap();
        clients.lines().any(|client| client.contains(" resp=3") && !client.contains(" sub=1 "))
    };
    let mut quiet = 0;
    eventually(|| {
        quiet = if set.sentinels.iter().any(is_asked) { 0 } else { quiet + 1 };
        std::future::ready((quiet > 20).then_some(()))
    })
    .await;
    // The Sentinels don't announce this change, so the client must reconnect to detect it.
    let port = other.port().to_string();
    for sentinel in &set.sentinels {
        let name = set.master_name();
        sentinel.command::<()>(&["SENTINEL", "REMOVE", name]).unwrap();
        sentinel.command::<()>(&["SENTINEL", "MONITOR", name, "127.0.0.1", &port, "2"]).unwrap();
    }
    let clients = |server: &testbed::Redis| {
        let listed: String = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
        listed.lines().filter(|client| client.contains("cmd=role")).count()
    };
    kill_what_waits(&set.servers[0], "cmd=role");
    eventually(|| async { (clients(&other) == 1).then_some(()) }).await;
    fails(redis.try_acquire(&claim("a")).await, ErrorKind::Unavailable);
    for server in [&set.servers[0], &other] {
        assert_eq!(server.command::<i64>(&["EXISTS", "a"]).unwrap(), 0);
    }
    eventually(|| async {
        let refused = redis.try_acquire(&claim("a")).await.unwrap_err();
        refused.to_string().contains("0 of 1 replicas").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_failover_can_lose_a_lock_and_its_holder_is_reported() {
    let set = Sentinels::start().unwrap();
    let ttl = Duration::from_secs(12);
    let (redis, rival) = (Arc::new(impatient(&set).await), impatient(&set).await);
    // Give the replica an earlier fence, which its later fences must exceed.
    let before = claim("a");
    let earliest = grant(&redis, &before).await;
    wait_for(&set.servers[1], "a", &before.token.to_string()).await;
    redis.release(&before, ReleaseMode::Plain).await.unwrap();
    until(|| !exists(&set.servers[1], "a")).await;

    cut_replication(&set);
    let locks = Locks::new(Arc::clone(&redis)).unwrap();
    let guard = locks.mutex("a").ttl(ttl).acquire().await.unwrap();
    let signal = guard.signal();
    let set = fail_over(set).await;

    let theirs = claim("a");
    let granted = eventually(|| async { rival.try_acquire(&theirs).await.ok() }).await;
    let AcquireOutcome::Granted(granted) = granted else { panic!("it was lost: {granted:?}") };
    let deadline = signal.deadline();
    assert!(deadline > lockwright_core::Clock::boot().now(), "two held at the same time");
    assert!(granted.fence > guard.fence(), "{granted:?} after {:?}", guard.fence());
    assert!(guard.fence() > earliest.fence);

    let ended = tokio::time::timeout(2 * ttl, signal.ended()).await.unwrap();
    assert!(matches!(ended, HoldState::Lost(Reason::Gone)), "{ended:?}");
    assert!(lockwright_core::Clock::boot().now() < deadline, "late: told after its deadline");
    assert_eq!(rival.inspect(&name("a")).await.unwrap().holders[0].token, Some(theirs.token));
    drop(set);
}

#[tokio::test]
async fn a_grant_that_a_replica_acknowledged_survives_its_taking_over() {
    let set = Sentinels::start().unwrap();
    let url = format!("{}?replicas=1&replica_timeout=300ms", set.url());
    let config = Config::new(&url).unwrap().response_timeout(QUICK);
    let (redis, rival) = (config.connect().await.unwrap(), impatient(&set).await);
    let ours = claim("a");
    cut_replication(&set);
    fails(redis.try_acquire(&ours).await, ErrorKind::Unavailable);
    set.servers[1].thaw();
    let granted = eventually(|| async { redis.try_acquire(&ours).await.ok() }).await;
    assert!(matches!(granted, AcquireOutcome::Granted(_)), "{granted:?}");

    let set = fail_over(set).await;
    let theirs = eventually(|| async { rival.try_acquire(&claim("a")).await.ok() }).await;
    assert!(matches!(theirs, AcquireOutcome::Busy(_)), "{theirs:?}");
    // Renewals need a replica, releases don't.
    let ended = eventually(|| async { redis.release(&ours, ReleaseMode::Plain).await.ok() }).await;
    assert_eq!(ended, ReleaseOutcome::Released);
    drop(set);
}

#[tokio::test]
async fn the_doctor_looks_at_the_sentinels_too() {
    let servers = testbed::Redis::options().append_only("always");
    let set = Sentinels::options().servers(servers).start().unwrap();
    let codes = |url: String| async move {
        let config = Config::new(&url).unwrap().connect_timeout(4 * QUICK);
        let findings = config.connect().await.unwrap().doctor().await.unwrap();
        let mut codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
        codes.sort_unstable();
        codes
    };
    assert_eq!(codes(set.url()).await, ["replicas"], "a note");
    let with_a_stranger = set.url_through(
        set.sentinels.iter().map(testbed::redis::Sentinel::port).chain([testbed::port::free()]),
    );
    assert_eq!(codes(with_a_stranger).await, ["replicas", "sentinel-unusable"]);

    let alone = testbed::Redis::options().append_only("always").start().unwrap();
    let other = testbed::Redis::options().append_only("always").start().unwrap();
    for (sentinel, server) in set.sentinels.iter().zip([&alone, &other]) {
        let port = server.port().to_string();
        sentinel.command::<()>(&["SENTINEL", "MONITOR", "solo", "127.0.0.1", &port, "1"]).unwrap();
    }
    let one = set.url_through([set.sentinels[0].port()]).replace("lockwright", "solo");
    assert_eq!(codes(one).await, ["no-replica", "sentinels-too-few"]);
    let all = codes(set.url().replace("lockwright", "solo")).await;
    for code in ["sentinel-unusable", "sentinels-disagree"] {
        assert!(all.contains(&code), "{all:?}");
    }
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_connection_behind() {
    let set = Sentinels::start().unwrap();
    let clients = |has: &'static str| {
        let set = &set;
        move || {
            let listed = &["CLIENT", "LIST"];
            let on_sentinel: String = set.sentinels[0].command(listed).unwrap();
            let on_master: String = set.servers[0].command(listed).unwrap();
            let count = |list: &str| list.lines().filter(|client| client.contains(has)).count();
            (count(&on_sentinel), count(&on_master))
        }
    };
    let (listening, waiting) = (clients(" sub=1 "), clients(" cmd=role "));
    let (own, subscribed) = (clients(" cmd=sentinel|master "), clients(" sub=3 "));
    let others = listening();
    let redis = connect(&format!("{}?replicas=1", set.url())).await;
    eventually(|| async { (listening().0 == others.0 + 1).then_some(()) }).await;
    assert_eq!((waiting().1, subscribed().1), (1, 1));
    drop(redis);
    for gone in [waiting, subscribed, own] {
        eventually(|| async { (gone() == (0, 0)).then_some(()) }).await;
    }
    eventually(|| async { (listening() == others).then_some(()) }).await;
}
