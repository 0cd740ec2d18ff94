//! Renewal and inspection of many locks: one request per slot, in parallel.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwright_core::{ErrorKind, LockName, Renew, Renewal, Result};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Cluster;
use crate::answer::Found;
use crate::errors::{Effect, error};
use crate::keys::{by_slot, slot_of};
use crate::renew::Batch;
use crate::servers::Servers;

impl Cluster {
    /// Returns before the `patience` of any hold ends. Requests without a reply, whose holds are
    /// then indeterminate, continue in tasks, so time-outs detect a frozen node.
    pub(crate) async fn renew(self: &Arc<Self>, holds: &[Renew<'_>]) -> Result<Vec<Renewal>> {
        let until = Instant::now() + Renew::time_to_answer(holds);
        let prefix = &self.shared.config.key_prefix;
        let mut asking = Vec::new();
        for places in places(prefix, holds.iter().map(|hold| &hold.claim.name)) {
            let some: Vec<Renew<'_>> = places.iter().map(|at| holds[*at]).collect();
            let mut batch = Batch::new(prefix, &some)?;
            batch.effect = Effect::ChangesBy(until);
            let servers = Servers::Cluster(Arc::clone(self));
            let renewing = async move { servers.renew_together(&batch).await };
            asking.push((places, self.shared.runtime.spawn(renewing)));
        }
        let mut renewals = vec![Renewal::INDETERMINATE; holds.len()];
        let (mut answered, mut failure) = (holds.is_empty(), None);
        for (places, task) in asking {
            match timeout_at(until, joined(task)).await {
                Ok(Ok(some)) => {
                    answered = true;
                    for (at, renewal) in places.into_iter().zip(some) {
                        renewals[at] = renewal;
                    }
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => {
                    let late = "the server did not answer in time; the request may have been \
                                carried out";
                    failure = failure.or(Some(error(ErrorKind::Indeterminate, late)));
                }
            }
        }
        if let Some(failure) = failure {
            if !answered {
                return Err(failure);
            }
            tracing::debug!(%failure, "redis: some holds of a batch could not be renewed");
        }
        Ok(renewals)
    }

    pub(crate) async fn inspect_all(self: &Arc<Self>, names: &[LockName]) -> Result<Vec<Found>> {
        let prefix = &self.shared.config.key_prefix;
        let mut asking = Vec::new();
        for places in places(prefix, names.iter()) {
            let some: Vec<LockName> = places.iter().map(|at| names[*at].clone()).collect();
            let servers = Servers::Cluster(Arc::clone(self));
            let inspecting = async move { servers.inspect_together(&some).await };
            asking.push((places, self.shared.runtime.spawn(inspecting)));
        }
        let mut found = BTreeMap::new();
        for (places, task) in asking {
            found.extend(places.into_iter().zip(joined(task).await?));
        }
        Ok(found.into_values().collect())
    }
}

fn places<'n>(prefix: &str, names: impl Iterator<Item = &'n LockName>) -> Vec<Vec<usize>> {
    let slot = |name: &LockName| slot_of(&format!("{prefix}{name}"));
    by_slot(names.enumerate().map(|(at, name)| (slot(name), at)))
}

async fn joined<T>(task: JoinHandle<Result<T>>) -> Result<T> {
    task.await.unwrap_or_else(|_| {
        let problem = "the runtime in which the client connected has ended";
        Err(error(ErrorKind::Indeterminate, problem))
    })
}
