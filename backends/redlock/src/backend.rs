use std::sync::{Arc, Mutex};

use lockwright_core::backend_util::Jitter;
use lockwright_core::{
    AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock, Error, Events,
    Finding, Inspection, LockName, Mode, Page, Profile, ReleaseMode, ReleaseOutcome, Renew,
    Renewal, Result, Wait, async_trait,
};
use tokio::runtime::Handle;

use crate::errors::error;
use crate::fleet::{Fleet, invalid};
use crate::membership::Membership;
use crate::names::Names;
use crate::node::Node;
use crate::options::Options;
use crate::pending_releases::PendingReleases;
use crate::token_states::{Nodes, TokenStates};
use crate::wakeup::Wakeups;
use crate::{SHORTEST_TTL, acquire, doctor, operator, profile, release, renew};

/// Locks on a quorum of independent nodes.
///
/// Background tasks run on the tokio runtime in which the value was created. After its drop, they
/// still retry pending releases.
#[derive(Debug)]
pub struct Redlock {
    pub(crate) fleet: Arc<Fleet>,
    wakeups: Arc<Wakeups>,
    profile: Profile,
}

impl Redlock {
    /// Creates locks on these nodes, without sending requests.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): fewer than three nodes, an
    /// even number, or two with the same address; invalid options; or no tokio runtime.
    pub fn new(nodes: Vec<Arc<dyn Node>>, options: Options) -> Result<Self> {
        options.check()?;
        check_nodes(&nodes)?;
        let runtime = Handle::try_current()
            .map_err(|_| invalid_config("a quorum needs a tokio runtime; create it within one"))?;
        let quorum = nodes.len() / 2 + 1;
        let seeded = |stream: u64| options.jitter_seed.map(|seed| Jitter::from_seed(seed ^ stream));
        let jitter = |stream| seeded(stream).unwrap_or_default();
        let wakeups = Wakeups::attach_to(
            &nodes,
            quorum,
            options.patience(SHORTEST_TTL),
            jitter(1),
            runtime.clone(),
        );
        let fleet = Fleet {
            memberships: nodes.iter().map(|_| Membership::default()).collect(),
            joining: Mutex::default(),
            quorum,
            token_states: TokenStates::new(nodes.len()),
            names: Names::default(),
            pending_releases: PendingReleases::new(nodes.len()),
            random: jitter(0),
            nodes,
            options,
            runtime,
        };
        let profile = profile(&fleet.options);
        Ok(Self { fleet: Arc::new(fleet), wakeups, profile })
    }

    fn check_claim(&self, claim: &Claim) -> Result<()> {
        if claim.mode != Mode::Exclusive {
            return Err(Error::unsupported(&format!("the mode {}", claim.mode), &self.profile));
        }
        // A node that lost its data votes again after the largest TTL, so a longer hold could get a
        // second holder.
        if !self.profile.ttl.contains(&claim.ttl) {
            return Err(invalid(format!(
                "a TTL of {:?} is not within {:?} and the fleet's largest TTL, {:?}",
                claim.ttl,
                self.profile.ttl.start(),
                self.profile.ttl.end()
            )));
        }
        Ok(())
    }
}

fn invalid_config(message: impl Into<String>) -> Error {
    error(lockwright_core::ErrorKind::InvalidConfig, message)
}

fn check_nodes(nodes: &[Arc<dyn Node>]) -> Result<()> {
    let number = nodes.len();
    if number < 3 || number.is_multiple_of(2) || number > Nodes::MOST {
        return Err(invalid_config(format!(
            "a quorum needs an odd number of nodes from three to {}, and there are {number}: an \
             even number survives no more failures than one node fewer",
            Nodes::MOST
        )));
    }
    let mut addresses: Vec<&str> = nodes.iter().map(|node| node.address()).collect();
    addresses.sort_unstable();
    match addresses.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(invalid_config(format!(
            "the node {} is repeated; a node has only one vote",
            pair[0]
        ))),
        None => Ok(()),
    }
}

#[async_trait]
impl DistributedLock for Redlock {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn attach(&self, events: Events) {
        self.wakeups.clients.attach(events);
    }

    async fn acquire(&self, claim: &Claim, wait: Wait) -> Result<AcquireOutcome> {
        self.check_claim(claim).map_err(|error| error.with_name(&claim.name))?;
        let attempt = acquire::acquire(&self.fleet, claim, wait != Wait::No).await;
        attempt.map_err(|error| error.with_name(&claim.name))
    }

    async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        renew::renew(&self.fleet, holds).await
    }

    async fn release(&self, claim: &Claim, release_mode: ReleaseMode) -> Result<ReleaseOutcome> {
        let ended = release::release(&self.fleet, claim, release_mode).await;
        ended.map_err(|error| error.with_name(&claim.name))
    }

    async fn inspect(&self, name: &LockName) -> Result<Inspection> {
        operator::inspect(&self.fleet, name).await.map_err(|error| error.with_name(name))
    }

    async fn list(&self, prefix: &str, from: Option<Cursor>) -> Result<Page> {
        operator::list(&self.fleet, prefix, from).await
    }

    async fn break_lock(
        &self,
        name: &LockName,
        seen: BreakTarget,
        how: BreakMode,
        by: &str,
        reason: &str,
    ) -> Result<Broken> {
        let broken = operator::break_lock(&self.fleet, name, seen, how, by, reason).await;
        broken.map_err(|error| error.with_name(name))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        doctor::examine(&self.fleet).await
    }
}
