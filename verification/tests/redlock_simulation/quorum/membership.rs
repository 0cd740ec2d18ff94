use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, ErrorKind};
use lockwright_redlock::NodeStatus;
use tokio::time::sleep;

use super::common::{LARGEST_TTL, NODE_TIMEOUT, claim, five, grant, nodes, options, redlock};
use super::test_node::Fate;
use crate::server::Restart;

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
