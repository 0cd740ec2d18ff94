use std::sync::Arc;
use std::time::Duration;

pub(crate) use lockwright_conformance::test_helpers::{
    FOR_EVER, busy, claim_for, events, fails, fails_with, grant, released,
};
use lockwright_core::{Claim, Clock, Error};
use lockwright_redlock::{Options, Redlock};
use tokio::time::{Instant, sleep};

use super::test_node::{Fate, TestNode};

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const LARGEST_TTL: Duration = Duration::from_secs(60);
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(50);

pub(crate) struct Five {
    pub(crate) nodes: Vec<Arc<TestNode>>,
    pub(crate) redlock: Redlock,
    pub(crate) clock: Clock,
}

pub(crate) fn options(clock: &Clock) -> Options {
    Options::new()
        .largest_ttl(LARGEST_TTL)
        .node_timeout(NODE_TIMEOUT)
        .clock(clock.clone())
        .jitter_seed(7)
        .wall_clock(|| 1_000)
}

pub(crate) fn nodes(number: usize) -> Vec<Arc<TestNode>> {
    (0..number).map(|at| TestNode::new(at, LARGEST_TTL)).collect()
}

pub(crate) fn redlock(nodes: &[Arc<TestNode>], options: Options) -> Result<Redlock, Error> {
    Redlock::new(nodes.iter().map(TestNode::node).collect(), options)
}

pub(crate) fn five() -> Five {
    let clock = Clock::tokio();
    let nodes = nodes(5);
    let redlock = redlock(&nodes, options(&clock)).unwrap();
    Five { nodes, redlock, clock }
}

pub(crate) async fn checked_five() -> Five {
    let five = five();
    grant(&five.redlock, &claim("seen before")).await;
    five
}

pub(crate) async fn five_with_hold() -> (Five, Claim) {
    let (five, held) = (five(), claim("x"));
    grant(&five.redlock, &held).await;
    wait_until("all hold it", || five.holders(&held) == 5).await;
    (five, held)
}

impl Five {
    pub(crate) fn at(
        &self,
        at: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = &TestNode> {
        at.into_iter().map(move |at| &*self.nodes[at])
    }

    pub(crate) fn fate(&self, at: impl IntoIterator<Item = usize>, fate: Fate) {
        self.at(at).for_each(|node| node.fate(fate));
    }

    pub(crate) fn clear(&self, at: impl IntoIterator<Item = usize>) {
        self.at(at).for_each(|node| node.state().server.data.holds.clear());
    }

    pub(crate) fn count(&self, claim: &Claim, counters: [u64; 5]) {
        for (node, counter) in self.nodes.iter().zip(counters) {
            node.state().server.data.counters.insert(claim.name.clone(), counter);
        }
    }

    pub(crate) fn another(&self) -> Redlock {
        redlock(&self.nodes, options(&self.clock)).unwrap()
    }

    pub(crate) fn holders(&self, claim: &Claim) -> usize {
        self.nodes.iter().filter(|node| node.holder(&claim.name) == Some(claim.token)).count()
    }

    pub(crate) async fn nothing_is_left_of(&self, claim: &Claim) {
        wait_until("nothing of it is left", || self.holders(claim) == 0).await;
    }
}

pub(crate) async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(Instant::now() < limit, "it never came that {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn claim(name: &str) -> Claim {
    claim_for(name, TTL)
}
