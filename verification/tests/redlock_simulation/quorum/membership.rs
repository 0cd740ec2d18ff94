use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, ErrorKind, Wait};
use lockwright_redlock::NodeStatus;
use tokio::time::sleep;

use super::common::{
    LARGEST_TTL, NODE_TIMEOUT, busy, claim, five, grant, nodes, options, redlock, wait_until,
};
use super::test_node::{Fate, TestNode};
use crate::server::Restart;

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_lets_no_second_holder_in() {
    let five = five();
    let mut held = claim("x");
    held.ttl = LARGEST_TTL;
    five.fate([3, 4], Fate::Down);
    grant(&five.redlock, &held).await;
    five.nodes[2].restart(Restart::Empty);
    five.fate([3, 4], Fate::Answered);
    let (other, next) = (five.another(), claim("x"));
    let mut waited = Duration::ZERO;
    while waited + Duration::from_secs(1) < LARGEST_TTL {
        let _ = busy(&other, &next, Wait::No).await;
        assert!(five.holders(&next) == 0);
        sleep(Duration::from_millis(500)).await;
        waited += Duration::from_millis(500);
    }
    sleep(Duration::from_secs(2)).await;
    grant(&other, &next).await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_fleet_says_what_it_waits_for_and_then_votes() {
    let five = five();
    five.at(0..5).for_each(|node| node.restart(Restart::Empty));
    let error = five.redlock.try_acquire(&claim("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("node:0: it is new: it votes in 61 s"), "{text}");
    assert!(text.contains("lockwright admit"), "{text}");
    sleep(LARGEST_TTL / 2).await;
    let text = five.redlock.try_acquire(&claim("x")).await.unwrap_err().to_string();
    assert!(text.contains("it votes in 31 s"), "{text}");
    sleep(LARGEST_TTL / 2 + LARGEST_TTL / 50).await;
    grant(&five.redlock, &claim("x")).await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_fleet_can_be_admitted() {
    let five = five();
    five.at(0..5).for_each(|node| node.restart(Restart::Empty));
    five.nodes[4].fate(Fate::Down);
    let before = five.redlock.node_statuses().await;
    assert!(matches!(before[0].1, NodeStatus::New(_)), "{before:?}");
    assert!(matches!(before[4].1, NodeStatus::Down(_)), "{before:?}");
    let other = five.another();
    other.try_acquire(&claim("x")).await.unwrap_err();
    let after = five.redlock.admit().await;
    assert!(after[..4].iter().all(|(_, seat)| matches!(seat, NodeStatus::Votes)), "{after:?}");
    grant(&five.redlock, &claim("x")).await;
    // The other client checks the nodes again after a second, but not in each round.
    let looks = five.nodes[0].asked("look");
    other.try_acquire(&claim("y")).await.unwrap_err();
    other.try_acquire(&claim("y")).await.unwrap_err();
    assert_eq!(five.nodes[0].asked("look"), looks);
    sleep(Duration::from_secs(1)).await;
    grant(&other, &claim("y")).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_everything_kept_costs_nothing() {
    let five = five();
    grant(&five.redlock, &claim("x")).await;
    five.at(0..5).for_each(|node| node.restart(Restart::Kept));
    grant(&five.redlock, &claim("y")).await;
    wait_until("all were asked again", || {
        five.nodes.iter().all(|node| node.state().server.data.holds.len() == 2)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_server_has_one_vote() {
    let five = five();
    five.at(1..3).for_each(|node| node.state().server.number = 0);
    // The five addresses lead to three servers, one of which is down.
    five.nodes[4].fate(Fate::Down);
    let error = five.redlock.try_acquire(&claim("x")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("node:2: redlock: it is the same server as node:"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn another_largest_ttl_is_another_fleet() {
    let clock = Clock::tokio();
    let mut nodes = nodes(3);
    let other = LARGEST_TTL * 2;
    nodes[1] = TestNode::new(1, other);
    nodes[2] = TestNode::new(2, other);
    let redlock = redlock(&nodes, options(&clock)).unwrap();
    let error = redlock.try_acquire(&claim("x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "waiting is of no use: {error}");
    let text = error.to_string();
    assert!(text.contains("node:1") && text.contains("120s") && text.contains("60s"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn minority_is_refused() {
    let clock = Clock::tokio();
    for number in [0, 1, 2, 4, 6, 64] {
        let error = redlock(&nodes(number), options(&clock)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(&format!("there are {number}")), "{error}");
    }
    let twice = [nodes(2), nodes(1)].concat();
    let error = redlock(&twice, options(&clock)).unwrap_err();
    assert!(error.to_string().contains("node:0 is repeated"), "{error}");
    for bad in [
        options(&clock).node_timeout(Duration::ZERO),
        options(&clock).largest_ttl(Duration::ZERO),
        options(&clock).node_timeout(LARGEST_TTL),
    ] {
        let error = redlock(&nodes(3), bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[test]
fn a_runtime_is_needed() {
    let error = redlock(&nodes(3), lockwright_redlock::Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_holds_nobody_up() {
    let five = five();
    five.nodes[0].fate(Fate::Unanswered);
    grant(&five.redlock, &claim("x")).await;
    for round in 0..20 {
        let begun = tokio::time::Instant::now();
        grant(&five.redlock, &claim(&format!("x{round}"))).await;
        assert!(begun.elapsed() < NODE_TIMEOUT, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_doctor_tells_of_seats() {
    let five = five();
    five.nodes[0].fate(Fate::Down);
    five.at(1..3).for_each(|node| node.restart(Restart::Empty));
    let findings = five.redlock.doctor().await.unwrap();
    let codes: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    let (new, votes) = (["simulated", "node-new"], "simulated");
    let nodes = [&["node-down"][..], &new, &new, &[votes, votes, "no-quorum"]];
    assert_eq!(codes, nodes.concat());
    assert!(findings[0].what.contains("node:0"), "{findings:?}");
    assert_eq!(findings[1].what, "node:1: it works");
}
