use std::time::Duration;

use lockwright_core::{
    AcquireOutcome, Claim, Clock, DistributedLock, Event, Reason, ReleaseMode, RenewalOutcome, Wait,
};
use lockwright_testbed::{self as testbed, Proxy};
use lockwright_zookeeper::{Config, ZooKeeper};

use crate::common::{
    Cluster, FOR_EVER, busy, claim_for, connect, crowd, crowdable, events, eventually, grant,
    granted_soon, next, raw, renew, renewed, renewed_soon, server_and_proxy, sessions,
};

const LONG: Duration = Duration::from_secs(39);

/// A server that accepts few connections, a client that can lose its only connection, and another
/// client that holds the lock `taken`.
struct Crowded {
    server: Cluster,
    proxy: Proxy,
    zookeeper: ZooKeeper,
    other: ZooKeeper,
    taken: Claim,
}

async fn crowded(ttl: Duration) -> Crowded {
    crowded_with(ttl, None).await
}

/// Like [`crowded`], but the client's URL also names a server on port `another`.
async fn crowded_with(ttl: Duration, another: Option<u16>) -> Crowded {
    let server = crowdable().start().unwrap();
    let proxy = Proxy::start(server.members[0].address()).unwrap();
    let ports = [proxy.port()].into_iter().chain(another);
    let config = Config::new(&server.url_through(ports)).unwrap();
    let config = config.response_timeout(Duration::from_millis(500));
    let zookeeper = config.idle_timeout(Duration::from_millis(100)).connect().await.unwrap();
    let other = connect(&server.url()).await;
    let taken = claim_for("taken", LONG - Duration::from_secs(1));
    grant(&other, &taken).await;
    grant(&zookeeper, &claim_for("warm", ttl)).await;
    // The session for reads would reconnect and take a connection, so wait for its end.
    let longest = *zookeeper.profile().ttl.end();
    eventually(|| async { (sessions(&server, longest) == 1).then_some(()) }).await;
    Crowded { server, proxy, zookeeper, other, taken }
}

/// Waits until the client's session with this TTL is connected.
async fn answered(zookeeper: &ZooKeeper, ttl: Duration) {
    eventually(|| async { zookeeper.try_acquire(&claim_for("taken", ttl)).await.ok() }).await;
}

/// The session's connections break before the servers are checked, as when a majority fails at
/// once. The session survives, because the client has checked the servers' limits earlier.
#[tokio::test(flavor = "multi_thread")]
async fn session_survives_moves_among_checked_servers() {
    let Crowded { server, proxy, zookeeper, other: _other, .. } = crowded(LONG).await;
    let held = claim_for("x", LONG);
    grant(&zookeeper, &held).await;
    let strangers = crowd(&server).await;
    for _ in 0..2 {
        proxy.drop_connections();
        answered(&zookeeper, LONG).await;
    }
    assert_eq!(renew(&zookeeper, &held).await, RenewalOutcome::Indeterminate);
    drop(strangers);
    renewed_soon(&zookeeper, &held).await;
}

/// The URL names a server that was never checked and may have shortened the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn session_is_given_up_after_an_unchecked_server() {
    let ttl = Duration::from_secs(8);
    let nobody = testbed::port::free();
    let Crowded { server, proxy, zookeeper, other: _other, .. } =
        crowded_with(ttl, Some(nobody)).await;
    let held = claim_for("x", ttl);
    grant(&zookeeper, &held).await;
    let mut told = events(&zookeeper);
    let strangers = crowd(&server).await;
    for _ in 0..2 {
        proxy.drop_connections();
        answered(&zookeeper, ttl).await;
    }
    drop(strangers);
    let lost = Event::Lost(held.token, Reason::SessionEnded);
    while next(&mut told).await != lost {
        let renewed = renew(&zookeeper, &held).await;
        assert!(!matches!(renewed, RenewalOutcome::Renewed { .. }), "{renewed:?}");
    }
    let another = claim_for("z", ttl);
    granted_soon(&zookeeper, &another, Wait::No).await;
    renewed(&zookeeper, &another).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspect_session_is_given_up_and_admits_other_waiters() {
    let ttl = Duration::from_secs(8);
    let Crowded { server, proxy, zookeeper, other, taken } = crowded(ttl).await;
    let raw = raw(&server.url()).await;
    let (held, waiting) = (claim_for("x", ttl), claim_for("taken", ttl));
    grant(&zookeeper, &held).await;
    busy(&zookeeper, &waiting, FOR_EVER).await;
    let mut told = events(&zookeeper);
    let strangers = crowd(&server).await;
    proxy.drop_connections();
    answered(&zookeeper, ttl).await;
    other.release(&taken, ReleaseMode::Plain).await.unwrap();
    let asks_on = async {
        loop {
            let asked = zookeeper.acquire(&waiting, FOR_EVER).await;
            assert!(!matches!(asked, Ok(AcquireOutcome::Granted(_))), "{asked:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let next_claim = claim_for("taken", taken.ttl);
    tokio::select! {
        _ = granted_soon(&other, &next_claim, Wait::No) => {}
        () = asks_on => {}
    }
    assert_eq!(raw.list_children("/lockwright/taken").await.unwrap().len(), 1);
    let lost = Event::Lost(held.token, Reason::SessionEnded);
    while next(&mut told).await != lost {}
    drop(strangers);
    eventually(|| async { zookeeper.try_acquire(&claim_for("z", ttl)).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_with_a_shortened_timeout_is_given_up() {
    let (mut server, proxy, url) = server_and_proxy();
    let zookeeper = ZooKeeper::connect(&url).await.unwrap();
    let other = ZooKeeper::connect(&server.url()).await.unwrap();
    let held = claim_for("x", Duration::from_secs(20));
    grant(&zookeeper, &held).await;
    let mut told = events(&zookeeper);
    let settings = server.members[0].settings();
    let text = std::fs::read_to_string(&settings).unwrap();
    let lower = text.replace("maxSessionTimeout=40000", "maxSessionTimeout=3000");
    assert_ne!(text, lower);
    std::fs::write(&settings, lower).unwrap();
    server.members[0].restart(true).unwrap();
    let clock = Clock::boot();
    let mut valid_until = clock.now();
    let outcome = eventually(|| {
        let (clock, zookeeper, held) = (&clock, &zookeeper, &held);
        async move {
            let begun = clock.now();
            match renew(zookeeper, held).await {
                RenewalOutcome::Indeterminate => None,
                outcome => Some((begun, outcome)),
            }
        }
    });
    if let (begun, RenewalOutcome::Renewed { valid: Some(valid) }) = outcome.await {
        valid_until = begun + valid;
        proxy.cut();
    } else {
        let mut lost = false;
        while !lost {
            lost = matches!(next(&mut told).await, Event::Lost(token, _) if token == held.token);
        }
        proxy.cut();
    }
    granted_soon(&other, &claim_for("x", Duration::from_secs(2)), Wait::No).await;
    assert!(clock.now() >= valid_until, "two hold it");
}
