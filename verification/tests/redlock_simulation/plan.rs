use std::time::Duration;

use crate::chance::Chance;
use crate::server::{Flaws, Micros, Restart};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum World {
    /// Only faults that Redlock must survive, according to its profile.
    Claimed,
    /// Like `Claimed`, but the nodes break a rule.
    Flawed(Flaws),
    /// The nodes' clocks step ahead, one at a time.
    ClocksStep,
    /// The nodes' clocks run up to a fifth too fast.
    ClocksRace,
    /// Releases are delivered twice, the second time late.
    ReleasesTwice,
    /// All nodes lose their data. The clients' clocks, which give the fence candidates, differ by
    /// up to two minutes.
    ForgetsWithWildClocks,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) names: u64,
    pub(crate) largest_ttl: Duration,
    pub(crate) ttls: Vec<Duration>,
    pub(crate) node_timeout: Duration,
    pub(crate) weather: Weather,
    pub(crate) faults: Vec<(Micros, Fault)>,
    /// True if the nodes start without data, so they don't vote yet.
    pub(crate) fresh: bool,
    pub(crate) flaws: Flaws,
    pub(crate) doubles_releases: bool,
    /// When faults and new requests end.
    pub(crate) horizon: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NodePlan {
    pub(crate) keeps_every_write: bool,
    /// The clock's speed in millionths.
    pub(crate) rate: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientPlan {
    pub(crate) tasks: u64,
    /// Offset of the wall clock in microseconds, before and after `steps_at`.
    pub(crate) skews: [i64; 2],
    pub(crate) steps_at: Micros,
}

/// The delays of messages, and how many of 1,000 messages have each fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weather {
    pub(crate) request_lost: u64,
    pub(crate) reply_lost: u64,
    pub(crate) doubled: u64,
    pub(crate) connection_breaks: u64,
    /// The number delayed by up to four times the node time-out.
    pub(crate) slow: u64,
    /// The number delayed by up to twice the largest TTL.
    pub(crate) very_slow: u64,
    /// The maximum delay of other messages.
    pub(crate) usual: Duration,
}

impl Weather {
    pub(crate) const CALM: Self = Self::with(0, 0, 0, 1);
    const MILD: Self = Self::with(3, 5, 15, 2);
    const ROUGH: Self = Self::with(15, 20, 60, 5);

    /// `rare` is the rate of all faults without their own parameter.
    const fn with(rare: u64, doubled: u64, slow: u64, usual_millis: u64) -> Self {
        Self {
            request_lost: rare,
            reply_lost: rare,
            doubled,
            connection_breaks: rare,
            slow,
            very_slow: rare,
            usual: Duration::from_millis(usual_millis),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    // The node executes no request until the freeze ends.
    Freeze { node: usize, lasts: Duration },
    // No message passes between the client and the node.
    Cut { client: usize, node: usize, lasts: Duration },
    Snapshot { node: usize },
    Restart { node: usize, how: Restart, down: Duration },
    Flush { node: usize },
    ClockStep { node: usize, by: Duration },
    Crash { client: usize },
    Pause { client: usize, lasts: Duration },
}

impl Plan {
    pub(crate) fn new(world: World, chance: &mut Chance) -> Self {
        let number = chance.pick(&[3, 3, 5]);
        let largest_ttl = Duration::from_millis(chance.pick(&[600, 800]));
        let mut ttls = vec![largest_ttl];
        ttls.extend([Duration::from_millis(300), Duration::from_millis(200)]);
        let weather = match chance.below(6) {
            0 => Weather::CALM,
            1..=3 => Weather::MILD,
            _ => Weather::ROUGH,
        };
        let fresh = chance.one_in(8);
        let horizon = largest_ttl * if fresh { 9 } else { 7 } / 2;
        let mut plan = Self {
            nodes: Vec::new(),
            clients: Vec::new(),
            names: if chance.one_in(4) { 2 } else { 1 },
            largest_ttl,
            ttls,
            node_timeout: Duration::from_millis(chance.pick(&[10, 20, 30])),
            weather,
            faults: Vec::new(),
            fresh,
            flaws: if let World::Flawed(flaws) = world { flaws } else { Flaws::default() },
            doubles_releases: world == World::ReleasesTwice,
            horizon,
        };
        plan.nodes.extend((0..number).map(|_| NodePlan {
            keeps_every_write: !chance.one_in(3),
            rate: match world {
                World::ClocksRace => 1_000_000 + chance.below(200_000),
                // A hold's deadline allows for clocks whose rates differ by 1 %.
                _ => 995_000 + chance.below(10_001),
            },
        }));
        if world == World::ReleasesTwice {
            plan.weather.doubled = 300;
        }
        plan.add_clients(chance);
        plan.add_faults(world, chance);
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    fn forgets(world: World, chance: &mut Chance) -> bool {
        match world {
            World::Flawed(flaws) if flaws.no_quarantine || flaws.any_incarnation => true,
            World::Claimed | World::Flawed(_) => chance.one_in(2),
            _ => false,
        }
    }

    fn add_clients(&mut self, chance: &mut Chance) {
        let number = chance.between(2, 4);
        for _ in 0..number {
            let tasks = if chance.one_in(3) { 2 } else { 1 };
            let wild = |chance: &mut Chance| match chance.below(3) {
                0 => chance.below(2_000_000) as i64 - 1_000_000,
                _ => chance.below(120_000_000) as i64 - 60_000_000,
            };
            let skews = [wild(chance), wild(chance)];
            let steps_at = chance.below(self.horizon.as_micros() as u64);
            self.clients.push(ClientPlan { tasks, skews, steps_at });
        }
    }

    fn add_faults(&mut self, world: World, chance: &mut Chance) {
        let end = self.horizon.as_micros() as u64;
        let at = |chance: &mut Chance| chance.between(end / 20, end * 9 / 10);
        let (nodes, clients) = (self.nodes.len() as u64, self.clients.len() as u64);
        let largest = self.largest_ttl;
        let node = |chance: &mut Chance| chance.below(nodes) as usize;
        let client = |chance: &mut Chance| chance.below(clients) as usize;

        for _ in 0..chance.below(3) {
            let (node, lasts) = (node(chance), chance.time(largest * 3 / 2));
            self.faults.push((at(chance), Fault::Freeze { node, lasts }));
        }
        for _ in 0..chance.below(4) {
            let (client, node) = (client(chance), node(chance));
            let lasts = chance.time(largest * 3 / 2);
            self.faults.push((at(chance), Fault::Cut { client, node, lasts }));
        }
        for _ in 0..chance.below(2) {
            let (client, lasts) = (client(chance), chance.time(largest * 3 / 2));
            self.faults.push((at(chance), Fault::Pause { client, lasts }));
        }
        if chance.one_in(4) {
            self.faults.push((at(chance), Fault::Crash { client: client(chance) }));
        }
        // Any number of nodes that keep every write may restart.
        let durable: Vec<usize> =
            (0..self.nodes.len()).filter(|node| self.nodes[*node].keeps_every_write).collect();
        for _ in 0..chance.below(3) {
            if !durable.is_empty() {
                let (node, down) = (chance.pick(&durable), chance.time(largest / 4));
                let restart = Fault::Restart { node, how: Restart::Kept, down };
                self.faults.push((at(chance), restart));
            }
        }
        if world == World::ForgetsWithWildClocks {
            let at = at(chance);
            self.faults.extend((0..self.nodes.len()).map(|node| (at, Fault::Flush { node })));
        } else if Self::forgets(world, chance) {
            self.add_losses(chance);
            self.tame_clocks(chance);
        } else if chance.one_in(2) {
            self.tilt(chance);
        }
        if world == World::ClocksStep {
            let mut time = chance.below(end / 4);
            while time < end {
                let step = Fault::ClockStep { node: node(chance), by: largest };
                self.faults.push((time, step));
                // At most one clock steps within the largest TTL.
                time += largest.as_micros() as u64 + chance.below(end / 4);
            }
        }
    }

    fn add_losses(&mut self, chance: &mut Chance) {
        let largest = self.largest_ttl.as_micros() as u64;
        let end = self.horizon.as_micros() as u64;
        let minority = (self.nodes.len() - 1) / 2;
        let mut time = chance.between(largest / 2, largest * 2);
        while time < end * 9 / 10 {
            let mut nodes: Vec<usize> = (0..self.nodes.len()).collect();
            for _ in 0..chance.between(1, minority as u64) {
                let node = nodes.remove(chance.below(nodes.len() as u64) as usize);
                let time = time + chance.below(largest / 10);
                let down = chance.time(self.largest_ttl / 4);
                let how = match chance.below(3) {
                    0 => None,
                    1 if !self.nodes[node].keeps_every_write => Some(Restart::Stale),
                    2 if !self.nodes[node].keeps_every_write => Some(Restart::Kept),
                    _ => Some(Restart::Empty),
                };
                if how == Some(Restart::Stale) {
                    let before = chance.below(largest);
                    self.faults.push((time.saturating_sub(before), Fault::Snapshot { node }));
                }
                let fault = match how {
                    Some(how) => Fault::Restart { node, how, down },
                    None => Fault::Flush { node },
                };
                self.faults.push((time, fault));
            }
            // The next loss must come after these nodes vote again. A client looks at a node once
            // per second, and lets a new incarnation vote only after the largest TTL.
            time += largest * 5 / 2 + chance.below(largest * 2);
        }
    }

    /// Makes the nodes' fence counters differ widely. Client 0's clock, which gives its fence
    /// candidates, is ahead of all others. This client mostly reaches one node, from which the
    /// other clients are often cut off.
    fn tilt(&mut self, chance: &mut Chance) {
        let end = self.horizon.as_micros() as u64;
        let largest = self.largest_ttl;
        let nodes = self.nodes.len() as u64;
        self.clients[0].skews = [1, 2].map(|_| chance.between(60_000_000, 120_000_000) as i64);
        for client in 1..self.clients.len() {
            self.clients[client].skews = [1, 2].map(|_| -(chance.below(60_000_000) as i64));
        }
        let reached = chance.below(nodes) as usize;
        let mut time = 0;
        while time < end {
            let lasts = largest / 2;
            for node in (0..self.nodes.len()).filter(|node| *node != reached) {
                self.faults.push((time, Fault::Cut { client: 0, node, lasts }));
            }
            for client in 1..self.clients.len() {
                let node = if chance.one_in(2) { reached } else { chance.below(nodes) as usize };
                self.faults.push((time, Fault::Cut { client, node, lasts }));
            }
            time += lasts.as_micros() as u64 + chance.below(largest.as_micros() as u64 / 2);
        }
    }

    /// Lets the clients' clocks differ by less than half the largest TTL. A node that lost data
    /// votes only after the largest TTL, so the next candidates exceed the lost fences.
    fn tame_clocks(&mut self, chance: &mut Chance) {
        let apart = self.largest_ttl.as_micros() as u64 / 2;
        for client in &mut self.clients {
            client.skews = [(); 2].map(|()| chance.below(apart) as i64);
        }
    }
}
