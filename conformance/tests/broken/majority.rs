//! Permits that are counted on each node by itself and granted by a majority of the nodes.
//!
//! It looks sound, and is on one node. On several, majorities of *different* nodes are enough for more claims
//! than there are permits: of five nodes with three permits each, every one turns away one of four that ask at
//! once, but not the same one, so that each of the four has three nodes or more. For one permit the same
//! count is sound, as two majorities always have a node in common; and so redlock has locks, and no
//! semaphores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockwright_conformance::{Connect, connector};
use lockwright_core::{
    Attempt, Busy, Claim, Clock, Cursor, DistributedLock, Ended, Finding, Inspection, LockName,
    Modes, Page, Profile, Reason, Renew, Renewal, RenewalOutcome, Result, Settle, Wait,
    async_trait,
};
use lockwright_memory::Memory;

/// How long a request is under way from one node to the next farther one.
const HOP: Duration = Duration::from_millis(1);
/// In how many places the clients are, by turns, each with another order of the nodes' distances.
const PLACES: u32 = 4;

/// One client of the nodes.
#[derive(Debug)]
struct Majority {
    profile: Profile,
    clock: Clock,
    nodes: Arc<[Memory]>,
    /// Where the client is.
    place: u32,
}

/// Clients of so many nodes, each of them sound.
pub(crate) fn majority_of(nodes: usize, clock: &Clock) -> Connect {
    let nodes: Arc<[Memory]> = (0..nodes).map(|_| Memory::with_clock(clock.clone())).collect();
    let (clock, clients) = (clock.clone(), Arc::new(AtomicU32::new(0)));
    connector(move || {
        let mut profile = Profile::new("majority");
        profile.modes = Modes { exclusive: true, shared: false, permits: true };
        let place = clients.fetch_add(1, Ordering::SeqCst) % PLACES;
        let client = Majority { profile, clock: clock.clone(), nodes: Arc::clone(&nodes), place };
        std::future::ready(Ok(client))
    })
}

impl Majority {
    fn is_enough(&self, nodes: usize) -> bool {
        nodes > self.nodes.len() / 2
    }

    /// The nodes as they are reached by what is sent to all of them at once, and how long after the one before.
    fn way(&self) -> Vec<(Duration, &Memory)> {
        let mut order: Vec<(u32, &Memory)> =
            (self.place..).map(|distance| distance % PLACES).zip(self.nodes.iter()).collect();
        order.sort_by_key(|(distance, _)| *distance);
        let mut passed = 0;
        let hop =
            |(distance, node)| (HOP * (distance - std::mem::replace(&mut passed, distance)), node);
        order.into_iter().map(hop).collect()
    }
}

#[async_trait]
impl DistributedLock for Majority {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    async fn acquire(&self, claim: &Claim, _wait: Wait) -> Result<Attempt> {
        let start = self.clock.now();
        let mut granted = Vec::new();
        for (hop, node) in self.way() {
            self.clock.sleep(hop).await;
            if let Attempt::Granted(one) = node.acquire(claim, Wait::No).await? {
                granted.push(one);
            }
        }
        if self.is_enough(granted.len()) {
            let mut first = granted[0];
            first.start = Some(start);
            return Ok(Attempt::Granted(first));
        }
        self.release(claim, Settle::Answered).await?;
        Ok(Attempt::Busy(Busy::default()))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let mut renewed = vec![0; holds.len()];
        for (hop, node) in self.way() {
            self.clock.sleep(hop).await;
            for (count, answer) in renewed.iter_mut().zip(node.renew(holds).await?) {
                *count += usize::from(matches!(answer.outcome, RenewalOutcome::Renewed { .. }));
            }
        }
        let answer = |count| {
            if self.is_enough(count) { Renewal::RENEWED } else { Renewal::not_held(Reason::Gone) }
        };
        Ok(renewed.into_iter().map(answer).collect())
    }

    async fn release(&self, claim: &Claim, settle: Settle) -> Result<Ended> {
        let mut ended = Ended::NotHeld;
        for (hop, node) in self.way() {
            self.clock.sleep(hop).await;
            if node.release(claim, settle).await? == Ended::Released {
                ended = Ended::Released;
            }
        }
        Ok(ended)
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        self.nodes[0].inspect(name).await
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        self.nodes[0].list(prefix, from).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
