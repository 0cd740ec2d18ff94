use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Claim, DistributedLock, ErrorKind, Event, Locks, Mode,
    Reason, ReleaseMode, Renew, Renewal, Wait,
};
use lockwright_redis::{Config, Redis};
use lockwright_testbed::proxy::Traffic;
use lockwright_testbed::redis::SlotMove;
use lockwright_testbed::{self as testbed, Cluster, Proxy};
use tokio::task::block_in_place;

use crate::cluster::names_of_all_masters;
use crate::common::{
    FOR_EVER, busy, claim, claim_for, connect, count_calls, events, exists, fails, fails_with,
    grant, handed, impatient, next, not_held, released, renewed, until,
};

fn begin(cluster: &Cluster, key: &str) -> SlotMove {
    let from = cluster.master_of(key).unwrap();
    let to = (0..3).find(|master| *master != from).unwrap();
    cluster.begin_move(key, to).unwrap()
}

fn move_some(cluster: &Cluster, moving: &SlotMove, keys: &[&str]) {
    let port = cluster.nodes[moving.to].port().to_string();
    let command = [&["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"], keys].concat();
    let answer: String = cluster.nodes[moving.from].command(&command).unwrap();
    assert_eq!(answer, "OK");
}

async fn listed(redis: &Redis) -> Vec<String> {
    let page = redis.list("", None).await.unwrap();
    assert!(page.next.is_none());
    page.names.into_iter().map(|found| String::from(found.name)).collect()
}

fn redirections(cluster: &Cluster, node: usize) -> u64 {
    let stats: String = cluster.nodes[node].command(&["INFO", "errorstats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_outlives_every_step_of_a_move_and_can_be_released_at_each() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = impatient(&cluster.url()).await;
    // All locks are in one slot, and each step releases one.
    let claims: Vec<_> = (0..5).map(|i| claim(&format!("{{s}}{i}"))).collect();
    let mut fences = Vec::new();
    for claim in &claims {
        fences.push(grant(&redis, claim).await.fence);
    }
    let fence = |i: usize| format!("lockwright:{{s}}:fence:{{s}}{i}");
    let lock_of = |i: usize| claims[i].name.as_str();
    let mut moving = None;
    for step in 0..5 {
        match step {
            0 => {}
            1 => moving = Some(begin(&cluster, "s")),
            // Move a lock's key without its fence, and a fence without its lock's key.
            2 => {
                let keys = [lock_of(2), &fence(3)];
                move_some(&cluster, moving.as_ref().unwrap(), &keys);
            }
            3 => drop(cluster.move_keys(moving.as_ref().unwrap()).unwrap()),
            _ => block_in_place(|| cluster.finish_move(moving.take().unwrap())).unwrap(),
        }
        let live = &claims[step..];
        for claim in live {
            for key in [claim.name.as_str().to_owned(), fence(fences.len() - 1)] {
                // A shorter TTL makes the renewal visible. The command fails on the nodes without
                // the key.
                for node in &cluster.nodes[..3] {
                    let mut connection = node.connection().unwrap();
                    redis::cmd("ASKING").exec(&mut connection).unwrap();
                    let _ = redis::cmd("PEXPIRE").arg(&key).arg(9_000).exec(&mut connection);
                }
            }
            renewed(&redis, claim).await;
            let seen = redis.inspect(&claim.name).await.unwrap();
            assert_eq!(seen.holders[0].token, Some(claim.token), "step {step}: {}", claim.name);
            let left = seen.holders[0].remaining.unwrap();
            assert!(left > Duration::from_secs(25), "step {step}: armed again: {left:?}");
            let stranger = self::claim(claim.name.as_str());
            let renewal = redis.renew(&[Renew::of(&stranger)]).await.unwrap();
            assert_eq!(renewal, [Renewal::not_held(Reason::Gone)], "step {step}");
            not_held(&redis, &stranger, ReleaseMode::Reconcile).await;
        }
        let batch: Vec<_> = live.iter().map(Renew::of).collect();
        let renewals = redis.renew(&batch).await.unwrap();
        assert_eq!(renewals, vec![Renewal::RENEWED; live.len()], "step {step}");
        let names: Vec<_> = live.iter().map(|claim| claim.name.as_str().to_owned()).collect();
        assert_eq!(listed(&redis).await, names, "step {step}");

        released(&redis, &claims[step], ReleaseMode::Plain).await;
        not_held(&redis, &claims[step], ReleaseMode::Plain).await;
    }
    for (claim, fence) in claims.iter().zip(fences) {
        let next = self::claim(claim.name.as_str());
        assert!(grant(&redis, &next).await.fence > fence, "{}", claim.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_permits_are_renewed_before_their_keys_leave_and_after_it() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = impatient(&cluster.url()).await;
    let reader = Claim { mode: Mode::Shared, ..claim("{s}1") };
    let permits = Claim { mode: Mode::Permits { count: 1, of: 2 }, ..claim("{s}2") };
    let stranger = Claim { mode: Mode::Shared, ..claim("{s}1") };
    for holder in [&reader, &permits] {
        grant(&redis, holder).await;
    }
    let all = [&reader, &permits, &stranger].map(Renew::of);
    let gone = Renewal::not_held(Reason::Gone);
    let known = [Renewal::RENEWED, Renewal::RENEWED, gone.clone()];
    assert_eq!(redis.renew(&all).await.unwrap(), known);
    let moving = begin(&cluster, "s");
    assert_eq!(redis.renew(&all).await.unwrap(), known);
    move_some(&cluster, &moving, &["{s}1"]);
    let half = [Renewal::INDETERMINATE, Renewal::RENEWED, Renewal::INDETERMINATE];
    assert_eq!(redis.renew(&all).await.unwrap(), half);
    cluster.move_keys(&moving).unwrap();
    assert_eq!(redis.renew(&all).await.unwrap(), known);
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    assert_eq!(redis.renew(&all).await.unwrap(), known);
    // A renewal's script finds only that a hold is gone. The tombstone shows the break.
    for holder in [&reader, &permits] {
        let seen = BreakTarget::Token(holder.token);
        redis.break_lock(&holder.name, seen, BreakMode::Now, "anna", "stuck").await.unwrap();
    }
    let broken = Renewal::not_held(Reason::Broken);
    assert_eq!(redis.renew(&all).await.unwrap(), [broken.clone(), broken, gone]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_does_not_wait_for_a_silent_node_that_has_its_fence() {
    const PATIENCE: Duration = Duration::from_secs(6);
    let cluster = Cluster::options().node_timeout(Duration::from_secs(60));
    let cluster = block_in_place(|| cluster.start()).unwrap();
    let config = Config::new(&cluster.url()).unwrap().response_timeout(PATIENCE);
    let redis = config.connect().await.unwrap();
    let held = claim_for("{s}1", 20 * PATIENCE);
    grant(&redis, &held).await;
    let moving = begin(&cluster, "s");
    move_some(&cluster, &moving, &["lockwright:{s}:fence:{s}1"]);
    cluster.nodes[moving.to].freeze();
    let started = Instant::now();
    renewed(&redis, &held).await;
    assert!(started.elapsed() < PATIENCE / 2, "late: {:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_withdraws_meanwhile_tells_of_the_room() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let (redis, other) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let reader = || Claim { mode: Mode::Shared, ..claim("s") };
    let (held, writer, behind) = (reader(), claim("s"), reader());
    grant(&redis, &held).await;
    busy(&redis, &writer, FOR_EVER).await;
    busy(&other, &behind, FOR_EVER).await;
    let mut woken = events(&other);
    let moving = begin(&cluster, "s");
    move_some(&cluster, &moving, &["lockwright:{s}:fence"]);
    released(&redis, &writer, ReleaseMode::Plain).await;
    assert_eq!(next(&mut woken).await, Event::Wake(behind.name.clone()));
    cluster.move_keys(&moving).unwrap();
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    grant(&other, &behind).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_granted_or_broken_by_halves() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = impatient(&cluster.url()).await;
    let held = claim("s");
    let granted = grant(&redis, &held).await;
    let moving = begin(&cluster, "s");
    for half in [&[][..], &["s"], &["lockwright:{s}:fence"]] {
        if !half.is_empty() {
            move_some(&cluster, &moving, half);
        }
        let new = redis.try_acquire(&claim("{s}new")).await;
        fails_with(new, ErrorKind::Unavailable, "moving");
        match redis.try_acquire(&claim("s")).await {
            // Until a key moves, the fast path finds the lock and its fence on one node.
            Ok(AcquireOutcome::Busy(_)) => assert!(half.is_empty(), "{half:?}"),
            refused => drop(fails_with(refused, ErrorKind::Unavailable, "moving")),
        }
        let broken =
            redis.break_lock(&held.name, BreakTarget::Any, BreakMode::Now, "anna", "x").await;
        fails(broken, ErrorKind::Unavailable);
    }
    // The first acquire of this name uses the fast script, which doesn't read the tombstone.
    let settled = claim("{s}free");
    not_held(&redis, &settled, ReleaseMode::Reconcile).await;
    let refused = redis.try_acquire(&claim("s")).await.unwrap_err();
    assert_eq!(refused.backend(), Some("redis-cluster"));
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    busy(&redis, &claim("s"), Wait::No).await;
    fails(redis.try_acquire(&settled).await, ErrorKind::Lost(Reason::Gone));
    redis.release(&held, ReleaseMode::Plain).await.unwrap();
    assert!(grant(&redis, &claim("s")).await.fence > granted.fence);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_is_served_after_its_slot_has_moved() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let holder = Locks::new(impatient(&cluster.url()).await).unwrap();
    let waiter = Locks::new(impatient(&cluster.url()).await).unwrap();
    let guard = holder.mutex("s").acquire().await.unwrap();
    let fence = guard.fence();
    let waiting = tokio::spawn(async move { waiter.mutex("s").acquire().await });
    let node = &cluster.nodes[cluster.master_of("s").unwrap()];
    until(|| exists(node, "lockwright:{s}:queue")).await;
    let moving = begin(&cluster, "s");
    move_some(&cluster, &moving, &["s"]);
    guard.renew().await.unwrap();
    guard.release().await.unwrap();
    // The waiter needs the fence counter, which hasn't moved yet.
    assert!(!waiting.is_finished());
    block_in_place(|| cluster.finish_move(moving)).unwrap();
    let granted = waiting.await.unwrap().unwrap();
    assert!(granted.fence() > fence, "{} after {fence}", granted.fence());
    granted.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_moved_is_found_once_and_remembered() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let redis = connect(&cluster.url()).await;
    let held = claim("s");
    grant(&redis, &held).await;
    let old = cluster.master_of("s").unwrap();
    let before = redirections(&cluster, old);
    block_in_place(|| cluster.move_slot("s")).unwrap();
    for _ in 0..20 {
        renewed(&redis, &held).await;
    }
    assert_eq!(redirections(&cluster, old), before + 1);
    released(&redis, &held, ReleaseMode::Plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_once_also_on_another_node() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let (holder, waiter) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let held = claim("s");
    grant(&holder, &held).await;
    // Connect the waiter to all masters, which all deliver each message.
    for name in names_of_all_masters(&cluster) {
        grant(&waiter, &claim(&name)).await;
    }
    let (first, second) = (claim("s"), claim("s"));
    busy(&waiter, &first, FOR_EVER).await;
    busy(&waiter, &second, FOR_EVER).await;
    let mut woken = events(&waiter);
    block_in_place(|| cluster.move_slot("s")).unwrap();
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    assert_eq!(handed(&mut woken).await.0, first.token);
    waiter.release(&first, ReleaseMode::Plain).await.unwrap();
    assert_eq!(handed(&mut woken).await.0, second.token);
    // Duplicates may arrive by the other connections.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(woken.try_recv().ok(), None, "woken once by each release");
}

/// During a listing, a name moves from the slow last master to the first, which is already scanned.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_listed_that_moved_before_most_nodes_heard_of_it() {
    const PONG: &str = "1";

    let servers = testbed::Redis::options()
        .set("cluster-preferred-endpoint-type", "unknown-endpoint")
        .set("enable-debug-command", "local");
    let cluster = block_in_place(|| Cluster::options().servers(servers).start()).unwrap();
    let elsewhere = Ipv4Addr::new(127, 0, 0, 3);
    let mut proxies = Vec::new();
    for node in &cluster.nodes {
        let at = SocketAddr::from((elsewhere, node.port()));
        proxies.push(Proxy::start_at(at, node.address()).unwrap());
    }
    let redis = connect(&cluster.url().replace("127.0.0.1", &elsewhere.to_string())).await;
    // The listing visits the masters in this order.
    let mut order = [0, 1, 2];
    order.sort_by_key(|master| cluster.nodes[*master].port());
    let [first, _, last] = order;
    let moved = &names_of_all_masters(&cluster)[last];
    grant(&redis, &claim(moved)).await;

    proxies[last].set(Traffic::Delay(Duration::from_millis(150)));
    let listing = tokio::spawn(async move { listed(&redis).await });
    until(|| count_calls(&cluster.nodes[first], &["scan"]) > 0).await;
    let moving = cluster.begin_move(moved, first).unwrap();
    assert!(cluster.move_keys(&moving).unwrap() > 0);
    // Nodes that drop these packets detect the move only at a later ping.
    for (node, server) in cluster.nodes.iter().enumerate() {
        if ![moving.from, moving.to].contains(&node) {
            server.command::<()>(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", PONG]).unwrap();
        }
    }
    cluster.hand_over(&moving).unwrap();
    proxies[last].set(Traffic::Forward);
    assert_eq!(listing.await.unwrap(), [moved.as_str()]);
}
