//! The servers behind a backend: one, or the nodes of a Cluster.

use std::sync::Arc;

use lockwright_core::{LockName, Renew, Renewal, Result};
use redis::Value;

use crate::answer::{self, Found};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::connection::Link;
use crate::errors::Effect;
use crate::keys::Keys;
use crate::renewing::Batch;
use crate::scripts::{self, Script};
use crate::topology::{Topology, Whereabouts};
use crate::wakeup::Wakeups;

/// Where requests go.
#[derive(Debug)]
pub(crate) enum Servers {
    /// To one server, which may be another one after a failover by Sentinel.
    One(Arc<Link>),
    /// To the node that has the keys.
    Cluster(Arc<Cluster>),
}

impl Servers {
    pub(crate) async fn connect(config: Config) -> Result<Self> {
        let config = Arc::new(config);
        let wakeups = Arc::new(Wakeups::new(&config));
        let to = match &config.topology {
            Topology::One(server) => Whereabouts::at(server.clone()),
            Topology::Sentinel { .. } => Whereabouts::Master,
            Topology::Cluster { .. } => {
                return Cluster::connect(config, wakeups).await.map(Self::Cluster);
            }
        };
        Link::connect(config, wakeups, to).await.map(Self::One)
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        match self {
            Self::One(link) => link.config(),
            Self::Cluster(cluster) => cluster.config(),
        }
    }

    pub(crate) fn wakeups(&self) -> &Arc<Wakeups> {
        match self {
            Self::One(link) => link.wakeups(),
            Self::Cluster(cluster) => cluster.wakeups(),
        }
    }

    /// Runs a script where its keys are: they share a slot.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        effect: Effect,
    ) -> Result<Value> {
        match self {
            Self::One(link) => link.run(script, keys, arguments, effect).await,
            Self::Cluster(cluster) => cluster.run(script, keys, arguments, effect).await,
        }
    }

    /// Renews holds, of any slots.
    pub(crate) async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        match self {
            Self::One(link) => {
                let batch = Batch::new(&link.config().key_prefix, holds)?;
                let (keys, arguments) = (batch.keys(), batch.arguments());
                let answer = link.run(&scripts::RENEW, &keys, &arguments, Effect::Changes).await?;
                batch.renewals(answer)
            }
            Self::Cluster(cluster) => cluster.renew(holds).await,
        }
    }

    /// What is there for each name, in their order.
    pub(crate) async fn inspect_all(&self, names: &[LockName]) -> Result<Vec<Found>> {
        let link = match self {
            Self::One(link) => link,
            Self::Cluster(cluster) => return cluster.inspect_all(names).await,
        };
        let prefix = &link.config().key_prefix;
        let keys: Vec<Keys> =
            names.iter().map(|name| Keys::new(prefix, name)).collect::<Result<_>>()?;
        let keys: Vec<&str> = keys.iter().flat_map(Keys::described).collect();
        let answer = link.run(&scripts::INSPECT, &keys, &[], Effect::Reads).await?;
        answer::all_found(names, answer)
    }
}
