use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, Claim, DistributedLock, ErrorKind, Fault, ReleaseMode, Renew, Renewal,
    RenewalOutcome, Severity, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::{self as testbed, Cluster};
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::common::{
    LIMIT, QUICK, busy, claim, claim_for, connect, eventually, exists, fails, fails_with, grant,
    impatient, name, patient, released, renewed, token_in, until,
};

pub(crate) fn names_of_all_masters(cluster: &Cluster) -> [String; 3] {
    [0, 1, 2].map(|master| {
        let mut names = (0..).map(|i| format!("lock {i}"));
        names.find(|name| cluster.master_of(name).unwrap() == master).unwrap()
    })
}

/// Returns the holder's token that the master's replica has stored.
pub(crate) fn token_on_replica(cluster: &Cluster, master: usize, key: &str) -> Option<String> {
    let replica = &cluster.nodes[cluster.replica_of(master).unwrap()];
    let mut connection = replica.connection().unwrap();
    redis::cmd("READONLY").exec(&mut connection).unwrap();
    let value: Option<String> = redis::cmd("GET").arg(key).query(&mut connection).unwrap();
    value.map(|value| token_in(&value).to_owned())
}

async fn replicated(cluster: &Cluster, master: usize, held: &Claim) {
    let token = held.token.to_string();
    until(|| token_on_replica(cluster, master, held.name.as_str()).as_ref() == Some(&token)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn non_cluster_and_incomplete_cluster_are_refused() {
    let single = testbed::Redis::start().unwrap();
    let url = single.url().replace("redis://", "redis+cluster://");
    let error =
        fails_with(Redis::connect(&url).await, ErrorKind::InvalidConfig, "connect to it by redis:");
    assert_eq!(error.backend(), Some("redis-cluster"));

    let lonely = testbed::Redis::options().set("cluster-enabled", "yes").start().unwrap();
    let url = lonely.url().replace("redis://", "redis+cluster://");
    fails_with(Redis::connect(&url).await, ErrorKind::Unavailable, "no slots");
    fails_with(Redis::connect(&lonely.url()).await, ErrorKind::InvalidConfig, "redis+cluster:");

    let url = format!("redis+cluster://127.0.0.1:{}", testbed::port::free());
    fails_with(Redis::connect(&url).await, ErrorKind::Unavailable, "refuses connections");
}

/// In a Cluster, each request sets the counter to the server's time, unless it is behind.
#[tokio::test(flavor = "multi_thread")]
async fn counter_ahead_of_the_clock_is_kept() {
    const AHEAD: u64 = 5_000_000_000_000_000;
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = connect(&cluster.url()).await;
    let node = &cluster.nodes[cluster.master_of("a").unwrap()];
    node.command::<()>(&["SET", "lockwright:{a}:fence", &AHEAD.to_string()]).unwrap();
    assert_eq!(grant(&redis, &claim("a")).await.fence.get(), AHEAD + 1);
    // It lives until the clock reaches it, in about 100 years.
    let left: i64 = node.command(&["TTL", "lockwright:{a}:fence"]).unwrap();
    assert!(left > 90 * 365 * 24 * 60 * 60, "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_is_enough_to_find_the_others_and_dead_ones_cost_nothing() {
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let names = names_of_all_masters(&cluster);
    let replica = &cluster.nodes[cluster.replica_of(0).unwrap()];
    let redis = connect(&replica.url().replace("redis://", "redis+cluster://")).await;
    assert_eq!(redis.profile().backend, "redis-cluster");
    for fault in [Fault::ServerRestart, Fault::Failover, Fault::ServerDataLoss] {
        assert!(!redis.profile().survives.contains(fault), "{fault:?}");
    }
    for name in &names {
        grant(&redis, &claim(name)).await;
    }
    let spare = cluster.replica_of(1).unwrap();
    cluster.nodes[spare].kill();
    let frozen = cluster.replica_of(2).unwrap();
    cluster.nodes[frozen].freeze();
    let begun = Instant::now();
    let redis = impatient(&cluster.url()).await;
    for name in &names {
        busy(&redis, &claim(name), Wait::No).await;
    }
    assert!(begun.elapsed() < QUICK, "late: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_view_of_its_own_is_not_trusted() {
    let cluster = block_in_place(Cluster::start).unwrap();
    // This node claims all slots, like a node that was removed from the Cluster long ago.
    let stray = testbed::Redis::options().set("cluster-enabled", "yes").start().unwrap();
    stray.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    let names = names_of_all_masters(&cluster);
    let hosts = cluster.url().replace("redis+cluster://", "");
    for round in 0..10 {
        let url = format!("redis+cluster://{},{hosts}", stray.address());
        let redis = connect(&url).await;
        for (name, node) in names.iter().zip(&cluster.nodes) {
            let name = format!("{{{name}}}{round}");
            grant(&redis, &claim(&name)).await;
            assert!(exists(node, &name), "round {round}");
        }
    }
    assert_eq!(stray.command::<u64>(&["DBSIZE"]).unwrap(), 0);
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_reached_as_the_first_ones_are() {
    let servers = testbed::Redis::options().tls().user("locks", "a/b", "~* &* +@all");
    let cluster = block_in_place(|| Cluster::options().servers(servers).start()).unwrap();
    // The client uses the URL's login and CA for all nodes.
    let (node, authority) = (&cluster.nodes[0], cluster.nodes[0].authority());
    let url = node.url().replace("rediss://", "rediss+cluster://");
    let redis = connect(&format!("{url}?ca={}", authority.display())).await;
    let held = claim("s");
    grant(&redis, &held).await;
    for name in names_of_all_masters(&cluster) {
        grant(&redis, &claim(&name)).await;
    }
    block_in_place(|| cluster.move_slot("s")).unwrap();
    renewed(&redis, &held).await;
    released(&redis, &held, ReleaseMode::Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_takes_no_others_with_it_and_its_replica_goes_on() {
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let names = names_of_all_masters(&cluster);
    let redis = impatient(&cluster.url()).await;
    let ttl = Duration::from_secs(60);
    let claims = names.each_ref().map(|name| claim_for(name, ttl));
    let mut fences = Vec::new();
    for claim in &claims {
        fences.push(grant(&redis, claim).await.fence);
    }
    replicated(&cluster, 0, &claims[0]).await;
    cluster.nodes[0].kill();
    let batch: Vec<_> = claims.iter().map(Renew::of).collect();
    let renewals = redis.renew(&batch).await.unwrap();
    assert_eq!(renewals[0].outcome, RenewalOutcome::Indeterminate);
    assert_eq!(renewals[1..], [Renewal::RENEWED, Renewal::RENEWED]);
    fails(redis.try_acquire(&claim(&names[0])).await, ErrorKind::Unavailable);
    redis.release(&claims[1], ReleaseMode::Plain).await.unwrap();
    assert!(grant(&redis, &claim(&names[1])).await.fence > fences[1]);

    block_in_place(|| cluster.wait_for_failover(&names[0], 0)).unwrap();
    let renewals = eventually(|| async { redis.renew(&batch[..1]).await.ok() }).await;
    assert_eq!(renewals, [Renewal::RENEWED]);
    busy(&redis, &claim(&names[0]), Wait::No).await;
    released(&redis, &claims[0], ReleaseMode::Plain).await;
    assert!(grant(&redis, &claim(&names[0])).await.fence > fences[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_holds_up_no_renewals_of_others() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = connect(&cluster.url()).await;
    let ttl = Duration::from_secs(10);
    let claims = names_of_all_masters(&cluster).map(|name| claim_for(&name, ttl));
    for claim in &claims {
        grant(&redis, claim).await;
    }
    cluster.nodes[0].freeze();
    let batch: Vec<_> = claims.iter().map(Renew::of).collect();
    let begun = Instant::now();
    let renewals = redis.renew(&batch).await.unwrap();
    // The renewal task waits for at most a quarter of the TTL.
    assert!(begun.elapsed() < ttl / 4, "late: {:?}", begun.elapsed());
    assert_eq!(renewals[0].outcome, RenewalOutcome::Indeterminate);
    assert_eq!(renewals[1..], [Renewal::RENEWED, Renewal::RENEWED]);
    // The renewal task waits at most for `patience`, which is short near a hold's deadline.
    let patience = ttl / 10;
    let batch: Vec<_> = batch.into_iter().map(|one| Renew { patience, ..one }).collect();
    let begun = Instant::now();
    assert_eq!(redis.renew(&batch).await.unwrap(), renewals);
    assert!(begun.elapsed() < patience, "late: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_share_the_search_for_nodes_that_are_all_silent() {
    let cluster = block_in_place(Cluster::start).unwrap();
    // The response time-out is long enough for a caller to search for a node first.
    let config = Config::new(&cluster.url()).unwrap();
    let config = config.response_timeout(5 * QUICK).connect_timeout(QUICK);
    let redis = Arc::new(config.connect().await.unwrap());
    let [name, ..] = names_of_all_masters(&cluster);
    cluster.nodes.iter().for_each(|it| it.freeze());
    redis.try_acquire(&claim(&name)).await.unwrap_err();
    let begun = Instant::now();
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (redis, claim) = (Arc::clone(&redis), claim(&name));
            tokio::spawn(async move { redis.try_acquire(&claim).await.unwrap_err().kind() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), ErrorKind::Unavailable);
    }
    assert!(begun.elapsed() < 20 * QUICK, "late: one after the other: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_is_noticed_and_not_trusted_when_it_thaws() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let [name, elsewhere, _] = names_of_all_masters(&cluster);
    let redis = impatient(&cluster.url()).await;
    let sleeper = impatient(&cluster.url()).await;
    let held = claim_for(&name, Duration::from_secs(120));
    let granted = grant(&redis, &held).await;
    let other = claim(&elsewhere);
    grant(&redis, &other).await;
    busy(&sleeper, &claim(&name), Wait::No).await;
    // This client's callers drop their requests long before the client gives up connecting.
    let config = Config::new(&cluster.url()).unwrap().connect_timeout(20 * LIMIT);
    let hasty = config.connect().await.unwrap();
    busy(&hasty, &claim(&name), Wait::No).await;
    replicated(&cluster, 0, &held).await;

    cluster.nodes[0].freeze();
    let begun = Instant::now();
    fails(redis.renew(&[Renew::of(&held)]).await, ErrorKind::Indeterminate);
    assert!(begun.elapsed() < 3 * QUICK, "late: {:?}", begun.elapsed());
    renewed(&redis, &other).await;
    block_in_place(|| cluster.wait_for_failover(&name, 0)).unwrap();
    let renewals = eventually(|| async { redis.renew(&[Renew::of(&held)]).await.ok() }).await;
    assert_eq!(renewals, [Renewal::RENEWED]);
    let seen = held.name.clone();
    eventually(async || timeout(QUICK / 4, hasty.inspect(&seen)).await.ok()?.ok()).await;
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    let next = claim_for(&name, Duration::from_secs(120));
    let after = grant(&redis, &next).await;
    assert!(after.fence > granted.fence);

    // After the thaw, the old master still acts as a master for a moment.
    cluster.nodes[0].thaw();
    let mut asked = 0;
    eventually(|| async {
        match sleeper.try_acquire(&claim(&name)).await {
            Ok(AcquireOutcome::Granted(granted)) => panic!("by the old master: {granted:?}"),
            Ok(AcquireOutcome::Busy(busy)) => {
                let holder = busy.holder.and_then(|holder| holder.token);
                (holder == Some(next.token)).then_some(())
            }
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                None
            }
        }
    })
    .await;
    block_in_place(|| cluster.wait_until_whole()).unwrap();
    while asked < 20 {
        busy(&sleeper, &claim(&name), Wait::No).await;
        asked += 1;
    }
    renewed(&redis, &next).await;
    let role: String = cluster.nodes[0].command(&["INFO", "replication"]).unwrap();
    assert!(role.contains("role:slave"), "{role}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_looks_at_every_master_and_at_how_they_hang_together() {
    let servers = testbed::Redis::options().append_only("always");
    let mut cluster = block_in_place(|| Cluster::options().servers(servers).start()).unwrap();
    let config = patient(Config::new(&cluster.url()).unwrap());
    let redis = config.for_diagnosis().connect().await.unwrap();
    let findings = redis.doctor().await.unwrap();
    let mut places = Vec::new();
    for finding in &findings {
        // For each master with a replica, a note says that failovers can lose locks.
        assert_eq!((finding.code, finding.severity), ("replicas", Severity::Note), "{finding:?}");
        places.push(finding.what.split(": ").next().unwrap().to_owned());
    }
    places.sort();
    let mut masters: Vec<_> =
        cluster.nodes[..3].iter().map(|node| node.address().to_string()).collect();
    masters.sort();
    assert_eq!(places, masters);

    let has = async |code: &'static str, at: &testbed::Redis| {
        let place = at.address().to_string();
        eventually(|| async {
            let findings = redis.doctor().await.unwrap();
            let found = findings.iter().find(|finding| finding.code == code)?;
            (found.what.contains(&place)).then(|| found.clone())
        })
        .await
    };
    let moving = cluster.begin_move("s", (cluster.master_of("s").unwrap() + 1) % 3).unwrap();
    has("slots-moving", &cluster.nodes[moving.from]).await;
    block_in_place(|| cluster.finish_move(moving)).unwrap();

    cluster.nodes[1].command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    has("eviction-policy", &cluster.nodes[1]).await;

    let replica = cluster.replica_of(0).unwrap();
    cluster.nodes[replica].kill();
    has("node-failing", &cluster.nodes[replica]).await;
    has("no-replica", &cluster.nodes[0]).await;
    cluster.nodes[0].kill();
    has("node-unreachable", &cluster.nodes[0]).await;
    eventually(|| async {
        let findings = redis.doctor().await.unwrap();
        findings.iter().any(|finding| finding.code == "cluster-down").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_that_nobody_serves_are_reported() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = impatient(&cluster.url()).await;
    let [name, ..] = names_of_all_masters(&cluster);
    let slot = cluster.slot_of(&name).unwrap().to_string();
    let error = eventually(|| async {
        // Repeat the deletion, because gossip from other nodes can restore the slot's owner.
        for node in &cluster.nodes {
            let _ = node.command::<()>(&["CLUSTER", "DELSLOTS", &slot]);
        }
        let error = redis.try_acquire(&claim(&name)).await.unwrap_err();
        error.to_string().contains("serves").then_some(error)
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let findings = redis.doctor().await.unwrap();
    assert!(findings.iter().any(|finding| finding.code == "slots-uncovered"), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_rights_are_sufficient() {
    let rules =
        format!("{} +asking +cluster|slots +cluster|info +cluster|nodes", crate::acl::rules());
    let servers = testbed::Redis::options().user("locks", "secret", &rules);
    let cluster = block_in_place(|| Cluster::options().servers(servers).start()).unwrap();
    let redis = impatient(&cluster.url()).await;
    let held = claim("orders/{s}");
    grant(&redis, &held).await;
    renewed(&redis, &held).await;
    assert_eq!(redis.list("", None).await.unwrap().names.len(), 1);
    let codes: Vec<_> = redis.doctor().await.unwrap().iter().map(|f| f.code).collect();
    assert!(codes.iter().all(|code| !code.contains("denied")), "{codes:?}");
    let from = cluster.master_of("s").unwrap();
    let moving = cluster.begin_move("s", (from + 1) % 3).unwrap();
    cluster.move_keys(&moving).unwrap();
    renewed(&redis, &held).await;
    assert_eq!(redis.inspect(&held.name).await.unwrap().holders.len(), 1);
    released(&redis, &held, ReleaseMode::Reconcile).await;
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    assert_eq!(redis.inspect(&name("orders/{s}")).await.unwrap().holders, []);
}

/// A proxy that closes a connection at its first `CLUSTER INFO`.
fn without_cluster_info(listener: TcpListener, server: SocketAddr) {
    let forward = |mut from: TcpStream, mut to: TcpStream| {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let closes = buffer[..read].windows(13).any(|part| part == b"CLUSTER\r\n$4\r\n");
            if closes || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    };
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).unwrap();
            let (requests, answers) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || forward(requests, server));
            thread::spawn(move || forward(answers, client));
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_a_node_that_fails_during_the_examination() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let node = testbed::Redis::options().set("cluster-enabled", "yes");
    let node = node.set("cluster-announce-port", &port).start().unwrap();
    node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    without_cluster_info(listener, node.address());
    let redis = impatient(&format!("redis+cluster://127.0.0.1:{port}")).await;
    let findings = redis.doctor().await.unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"node-unreachable"), "{findings:?}");
    assert!(codes.contains(&"persistence"), "the other findings are kept: {findings:?}");
}
