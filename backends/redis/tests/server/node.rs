use std::time::Duration;

use lockwright_core::{Claim, ErrorKind, Fence, ReleaseMode, Renew};
use lockwright_redis::Config;
use lockwright_redis::node::{Incarnation, Node, RedisNode, Vote, Yes};
use lockwright_testbed as testbed;

use crate::common::{claim, eventually, patient, until};

const LARGEST: Duration = Duration::from_secs(60);

fn node(server: &testbed::Redis) -> RedisNode {
    RedisNode::new(patient(Config::new(&server.url()).unwrap()), LARGEST).unwrap()
}

async fn looked(node: &RedisNode) -> Incarnation {
    eventually(async || node.look().await.ok()).await
}

async fn admitted(node: &RedisNode) -> Incarnation {
    let new = looked(node).await;
    assert!(!new.votes, "{new:?}");
    let admitted = node.admit(&new).await.unwrap();
    assert!(admitted.votes, "{admitted:?}");
    admitted
}

async fn yes(node: &RedisNode, incarnation: &Incarnation, name: &str) -> Fence {
    match node.attempt(incarnation, &claim(name), Fence::new(1), false).await.unwrap() {
        Vote::Yes(Yes { fence, repeated: false, .. }) => fence,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_new_until_it_is_admitted_and_to_all_the_same() {
    let server = testbed::Redis::start().unwrap();
    let (one, other) = (node(&server), node(&server));
    let new = looked(&one).await;
    assert!(!new.votes);
    assert_eq!(new.largest_ttl, LARGEST);
    assert_eq!(looked(&other).await, new);
    let vote = one.attempt(&new, &claim("x"), Fence::new(1), false).await.unwrap();
    assert_eq!(vote, Vote::WrongIncarnation, "it doesn't vote yet");
    let admitted = one.admit(&new).await.unwrap();
    assert!(admitted.votes);
    assert_eq!(other.admit(&new).await.unwrap(), admitted, "only once");
    assert_eq!(looked(&other).await, admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_is_at_least_the_candidate() {
    let server = testbed::Redis::start().unwrap();
    let node = node(&server);
    let incarnation = admitted(&node).await;
    for (candidate, fence) in [(7, 7), (3, 8), (1_000, 1_000), (1_000, 1_001)] {
        let claim = claim("x");
        for repeated in [false, true] {
            let vote = node.attempt(&incarnation, &claim, Fence::new(candidate), false).await;
            let Vote::Yes(yes) = vote.unwrap() else { panic!() };
            assert_eq!((yes.fence, yes.repeated), (Fence::new(fence), repeated), "{candidate}");
        }
        node.release(&claim, ReleaseMode::Plain).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_of_a_block_are_voted_for_once() {
    let server = testbed::Redis::start().unwrap();
    let node = node(&server);
    let incarnation = admitted(&node).await;
    let block = Claim { fences: 3, ..claim("x") };
    node.attempt(&incarnation, &block, Fence::new(7), false).await.unwrap();
    node.release(&block, ReleaseMode::Plain).await.unwrap();
    assert_eq!(yes(&node, &incarnation, "x").await, Fence::new(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_token_gets_no_vote() {
    let server = testbed::Redis::start().unwrap();
    let node = node(&server);
    let (incarnation, ended) = (admitted(&node).await, claim("x"));
    node.release(&ended, ReleaseMode::Reconcile).await.unwrap();
    let vote = node.attempt(&incarnation, &ended, Fence::new(1), false).await.unwrap();
    assert_eq!(vote, Vote::Ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_is_raised_only_where_the_token_holds() {
    let server = testbed::Redis::start().unwrap();
    let node = node(&server);
    let incarnation = admitted(&node).await;
    let (held, other) = (claim("x"), claim("x"));
    let vote = |claim, candidate| node.attempt(&incarnation, claim, Fence::new(candidate), false);
    vote(&held, 5).await.unwrap();
    assert!(!node.raise(&incarnation, &other, Fence::new(90)).await.unwrap());
    assert!(node.raise(&incarnation, &held, Fence::new(9)).await.unwrap());
    let Vote::Yes(yes) = vote(&held, 50).await.unwrap() else { panic!() };
    assert_eq!(yes.fence, Fence::new(9), "a repeat answers what was settled on");
    assert!(node.raise(&incarnation, &held, Fence::new(4)).await.unwrap());
    node.release(&held, ReleaseMode::Plain).await.unwrap();
    assert!(!node.raise(&incarnation, &held, Fence::new(70)).await.unwrap());
    let Vote::Yes(yes) = vote(&other, 1).await.unwrap() else { panic!() };
    assert_eq!(yes.fence, Fence::new(10), "neither lowered nor raised by who doesn't hold");
}

/// Asserts that requests with the former incarnation don't count.
async fn is_a_stranger(node: &RedisNode, former: &Incarnation) {
    let held = claim("y");
    let vote = node.attempt(former, &held, Fence::new(1), false).await.unwrap();
    assert_eq!(vote, Vote::WrongIncarnation);
    assert!(!node.raise(former, &held, Fence::new(1)).await.unwrap());
    let renewal = Renew::of(&held);
    assert_eq!(node.renew(former, &[renewal]).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_node_is_a_stranger() {
    let server = testbed::Redis::start().unwrap();
    let node = node(&server);
    let former = admitted(&node).await;
    yes(&node, &former, "x").await;
    server.command::<()>(&["FLUSHALL"]).unwrap();
    is_a_stranger(&node, &former).await;
    let new = looked(&node).await;
    assert!(!new.votes && new.text != former.text && new.run == former.run, "{new:?}");
    // A flush during the wait for admission restarts the wait.
    server.command::<()>(&["FLUSHALL"]).unwrap();
    let newer = node.admit(&new).await.unwrap();
    assert!(!newer.votes && newer.text != new.text, "{newer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_may_have_lost_writes_is_new() {
    let options = testbed::Redis::options;
    let always = || options().append_only("always");
    // Redis loads its log as the default user. If this user has no rights, only the incarnation is
    // restored, and must not vote.
    let rightless = always().user("locks", "p@ss", "~* &* +@all").without_default_user();
    for (case, options, keeps_data) in [
        ("no log", options(), true),
        ("everysec", options().append_only("everysec"), true),
        ("emptied", always(), false),
        ("log without rights", rightless, true),
    ] {
        let mut server = options.start().unwrap();
        let node = node(&server);
        let former = admitted(&node).await;
        yes(&node, &former, "x").await;
        server.restart(keeps_data).unwrap();
        let new = looked(&node).await;
        assert!(!new.votes && new.run != former.run, "{case}: {new:?}");
        is_a_stranger(&node, &former).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stopped_keeping_every_write_is_known_for_it() {
    let mut server = testbed::Redis::options().append_only("always").start().unwrap();
    let node = node(&server);
    let kept = admitted(&node).await;
    server.command::<()>(&["CONFIG", "SET", "appendfsync", "everysec"]).unwrap();
    let not_kept = looked(&node).await;
    assert!(not_kept.votes && not_kept.text != kept.text, "{not_kept:?}");
    server.restart(true).unwrap();
    assert!(!looked(&node).await.votes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_refused_and_one_that_was_promoted_is_new() {
    let server = testbed::Redis::options().append_only("always").start().unwrap();
    admitted(&node(&server)).await;
    let replica =
        testbed::Redis::options().append_only("always").replica_of(&server).start().unwrap();
    let node = node(&replica);
    let refused = eventually(async || {
        let error = node.look().await.unwrap_err();
        (error.kind() != ErrorKind::Unavailable).then_some(error)
    });
    assert_eq!(refused.await.kind(), ErrorKind::Unsupported);
    until(|| replica.info("master_link_status").as_deref() == Some("up")).await;
    replica.command::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert!(!looked(&node).await.votes, "it follows late, so it may lack what its master had");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_ttl_of_the_fleet_stays_the_one_that_was_noted() {
    let mut server = testbed::Redis::options().append_only("everysec").start().unwrap();
    admitted(&node(&server)).await;
    let config = patient(Config::new(&server.url()).unwrap());
    let other = RedisNode::new(config, 2 * LARGEST).unwrap();
    assert_eq!(looked(&other).await.largest_ttl, LARGEST);
    server.restart(true).unwrap();
    let new = looked(&other).await;
    assert!(!new.votes, "{new:?}");
    assert_eq!(new.largest_ttl, LARGEST, "that of the holds that it may have forgotten");
}
