use std::sync::Arc;

use lockwright_core::{LockName, Renew, Renewal, Result};
use redis::{Cmd, Value};
use tokio::runtime::Handle;

use crate::answer::{self, Found};
use crate::cluster::{Cluster, slot_migration};
use crate::config::Config;
use crate::connection::{Link, Shared};
use crate::errors::Effect;
use crate::keys::{Keys, by_slot, slot_of};
use crate::renew::Batch;
use crate::scripts::{self, Call};
use crate::topology::{Topology, Whereabouts};
use crate::wakeup::Wakeups;

#[derive(Debug, Clone)]
pub(crate) enum Servers {
    One(Arc<Link>),
    Cluster(Arc<Cluster>),
}

impl Servers {
    pub(crate) async fn connect(config: Config) -> Result<Self> {
        let shared = Shared::new(config)?;
        let to = match &shared.config.topology {
            Topology::One(server) => Whereabouts::at(server.clone()),
            Topology::Sentinel { .. } => Whereabouts::Master,
            Topology::Cluster { seeds } => {
                let cluster = Cluster::connect(Arc::clone(&shared), seeds).await;
                return cluster.map(Self::Cluster);
            }
        };
        Link::connect(shared, to).await.map(Self::One)
    }

    fn shared(&self) -> &Shared {
        match self {
            Self::One(link) => &link.shared,
            Self::Cluster(cluster) => &cluster.shared,
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared().config
    }

    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.shared().wakeups
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.shared().runtime
    }

    /// Returns "1" if `PUBLISH` counts all subscribers. A Cluster counts only one node's.
    pub(crate) fn counts_receivers(&self) -> &'static str {
        match self {
            Self::One(_) => "1",
            Self::Cluster(_) => "0",
        }
    }

    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Value> {
        match self {
            Self::One(link) => link.run(call).await,
            Self::Cluster(cluster) => Box::pin(cluster.run(call)).await,
        }
    }

    /// Returns `None` if a moving slot's keys aren't all on one node.
    pub(crate) async fn try_run(&self, call: Call<'_>) -> Result<Option<Value>> {
        match self {
            Self::One(link) => link.run(call).await.map(Some),
            Self::Cluster(cluster) => Box::pin(cluster.try_run(call)).await,
        }
    }

    /// Sends a command to the node of `key`. Returns nil if the slot is moving and no node can run
    /// it.
    pub(crate) async fn command(&self, key: &str, command: &Cmd, effect: Effect) -> Result<Value> {
        let answer = self.try_run(Call::command(key, command, effect)).await?;
        Ok(answer.unwrap_or(Value::Nil))
    }

    pub(crate) fn grouped(&self, keys: Vec<String>) -> Vec<Vec<String>> {
        match self {
            Self::One(_) => vec![keys],
            Self::Cluster(_) => by_slot(keys.into_iter().map(|key| (slot_of(&key), key))),
        }
    }

    pub(crate) async fn renew(&self, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let prefix = &self.config().key_prefix;
        let renewals = match self {
            Self::One(_) => self.renew_together(&Batch::new(prefix, holds)?).await?,
            Self::Cluster(cluster) => cluster.renew(holds).await?,
        };
        self.wakeups().tracked.renewed(prefix, holds, &renewals);
        Ok(renewals)
    }

    /// Renews holds by one request. In a Cluster, the locks must share a slot.
    pub(crate) async fn renew_together(&self, batch: &Batch) -> Result<Vec<Renewal>> {
        let (keys, arguments) = (batch.keys(), batch.arguments(""));
        let call = scripts::RENEW.call(&keys, &arguments, batch.effect);
        let mut renewals = match self.try_run(call).await? {
            Some(answer) => batch.renewals(answer)?,
            None => slot_migration::renew(self, batch).await,
        };
        batch.find_reasons(self, &mut renewals).await;
        Ok(renewals)
    }

    pub(crate) async fn inspect_all(&self, names: &[LockName]) -> Result<Vec<Found>> {
        match self {
            Self::One(_) => self.inspect_together(names).await,
            Self::Cluster(cluster) => cluster.inspect_all(names).await,
        }
    }

    pub(crate) async fn inspect_together(&self, names: &[LockName]) -> Result<Vec<Found>> {
        let prefix = &self.config().key_prefix;
        let keys: Vec<Keys> =
            names.iter().map(|name| Keys::new(prefix, name)).collect::<Result<_>>()?;
        let flat: Vec<&str> = keys.iter().flat_map(Keys::described).collect();
        let call = scripts::INSPECT.call(&flat, &[], Effect::Reads);
        if let Some(answer) = self.try_run(call).await? {
            return answer::all_found(names, answer);
        }
        let mut found = Vec::with_capacity(names.len());
        for (name, keys) in names.iter().zip(&keys) {
            found.push(slot_migration::inspect(self, name, keys).await?);
        }
        Ok(found)
    }
}
