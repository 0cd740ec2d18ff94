//! Lookup of the slot map: the map that a majority reports, or else the most frequent one, because
//! gossip reaches some nodes late.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Error, ErrorKind, Result};
use redis::{AsyncConnectionConfig, Cmd, RedisError, Value};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Address, Cluster, SlotMap};
use crate::connection::{command, dial};
use crate::errors::{self, Effect, error};
use crate::failure;

const ASKED: usize = 9;

impl Cluster {
    pub(super) async fn look_up(self: &Arc<Self>) -> Result<()> {
        let looked = self.looked.load(Ordering::Acquire);
        let mut last = self.looking.lock().await;
        if self.looked.load(Ordering::Acquire) == looked {
            *last = match self.ask_nodes().await {
                Ok(map) => {
                    let masters = map.masters();
                    lock(&self.links).retain(|at, _| masters.contains(at));
                    self.current.change(|current| *current = map);
                    None
                }
                Err(failure) => Some(failure),
            };
            self.looked.fetch_add(1, Ordering::AcqRel);
        }
        match &*last {
            None => Ok(()),
            Some(failure) => Err(failure::copied(failure)),
        }
    }

    async fn ask_nodes(self: &Arc<Self>) -> Result<SlotMap> {
        let (map, mut known) = (self.map(), BTreeSet::new());
        let nodes = map.nodes().chain(&self.seeds).filter(|at| known.insert(*at)).cloned();
        let ask = |at| {
            let cluster = Arc::clone(self);
            async move { cluster.ask_one(&at).await }
        };
        // Leaves time for others if the first are silent.
        let limit = self.shared.config.connect_timeout.saturating_mul(2);
        ask_several(nodes.collect(), &self.shared.runtime, limit, ask).await
    }

    async fn ask_one(&self, at: &Address) -> Result<SlotMap> {
        let slots = command(&["CLUSTER", "SLOTS"]);
        let link = lock(&self.links).get(at).cloned();
        let answer = match link.and_then(|link| Some((link.usable()?, link))) {
            Some((live, link)) => link.ask(&live, None, &slots, Effect::Reads).await?,
            None => self.ask_unknown_node(at, &slots).await?,
        };
        let answer = answer.map_err(|cause| slots_error(cause, at))?;
        SlotMap::read(answer, at)
            .ok_or_else(|| Error::unavailable(format!("the node {at} lists no slots")))
    }

    /// Nodes without a `Link`, mostly replicas, get no other requests.
    async fn ask_unknown_node(
        &self,
        at: &Address,
        question: &Cmd,
    ) -> Result<Result<Value, RedisError>> {
        let config = &self.shared.config;
        let shown = format!("{at}, a node of {},", config.shown);
        let asking = async {
            let server = config.logged_in(self.server_at(at)).await?;
            let dialed = dial(server, AsyncConnectionConfig::new()).await;
            let mut connection = dialed.map_err(|cause| failure::of(&cause, &shown))?;
            Ok(question.query_async(&mut connection).await)
        };
        let limit = config.connect_timeout;
        let asked = timeout(limit, asking).await;
        asked.unwrap_or_else(|_| Err(failure::silence(&shown, limit)))
    }
}

/// Asks several nodes in parallel. Until one answers or the limit ends, each failure adds a node.
async fn ask_several<F: Future<Output = Result<SlotMap>> + Send + 'static>(
    nodes: Vec<Address>,
    runtime: &Handle,
    limit: Duration,
    ask: impl Fn(Address) -> F,
) -> Result<SlotMap> {
    let (begun, number) = (Instant::now(), nodes.len().min(ASKED));
    let (mut nodes, mut asking) = (nodes.into_iter(), JoinSet::new());
    for at in nodes.by_ref().take(ASKED) {
        asking.spawn_on(ask(at), runtime);
    }
    let mut views: Vec<(SlotMap, usize)> = Vec::new();
    let mut failure: Option<Error> = None;
    while let Some(end) = asking.join_next().await {
        match end {
            Ok(Ok(view)) => {
                let known = views.iter().position(|(known, _)| *known == view);
                let at = known.unwrap_or_else(|| {
                    views.push((view, 0));
                    views.len() - 1
                });
                views[at].1 += 1;
                if views[at].1 * 2 > number {
                    break;
                }
            }
            Ok(Err(other)) => {
                let says_less = other.kind() == ErrorKind::Unavailable && failure.is_some();
                failure = if says_less { failure } else { Some(other) };
                if views.is_empty()
                    && begun.elapsed() < limit
                    && let Some(at) = nodes.next()
                {
                    asking.spawn_on(ask(at), runtime);
                }
            }
            Err(_) => {}
        }
    }
    // `rev` makes `max_by_key` prefer the first of equally frequent maps.
    let view = views.into_iter().rev().max_by_key(|(_, votes)| *votes);
    view.map(|(view, _)| view).ok_or_else(|| {
        failure.unwrap_or_else(|| Error::unavailable("no node of the Cluster could be asked"))
    })
}

fn slots_error(cause: RedisError, at: &Address) -> Error {
    if cause.to_string().contains("cluster support disabled") {
        return Error::invalid_config(format!(
            "{at} is a single server, not a Cluster node; connect to it by redis: or rediss:"
        ));
    }
    if let Some((ErrorKind::Denied, _)) = errors::refusal(&cause) {
        let problem = format!(
            "the user may not run CLUSTER SLOTS on {at}; permit it: ACL SETUSER … +cluster|slots \
             +asking"
        );
        return error(ErrorKind::Denied, problem);
    }
    errors::translate(cause, Effect::Reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn further_nodes_are_asked_if_the_first_fail() {
        let found = async |failing, limit| {
            let ask = move |at: Address| async move {
                let mut map = SlotMap::empty();
                map.moved(7, &at);
                if at.port < failing { Err(Error::unavailable("silent")) } else { Ok(map) }
            };
            let nodes = (0..20).map(|port| Address { host: "a".to_owned(), port }).collect();
            let map = ask_several(nodes, &Handle::current(), limit, ask).await.ok()?;
            map.owner(7).map(|at| at.port)
        };
        assert!(found(0, Duration::MAX).await.is_some_and(|port| port < 9));
        assert!(found(9, Duration::MAX).await >= Some(9));
        assert_eq!(found(19, Duration::MAX).await, Some(19));
        assert_eq!(found(20, Duration::MAX).await, None);
        assert_eq!(found(9, Duration::ZERO).await, None, "the time is over");
    }
}
