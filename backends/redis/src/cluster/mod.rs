//! A Redis Cluster: each request goes to the node that serves the slot of its keys.
//!
//! The `redis` crate's Cluster client isn't used: it resends requests of unknown outcome, and keeps
//! its connection to a frozen node.

pub(crate) mod doctor;
mod lookup;
pub(crate) mod map;
mod redirects;
mod renew;
pub(crate) mod slot_migration;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Error, ErrorKind, Result};
use redis::{ConnectionInfo, FromRedisValue, Value};
use tokio::time::{Instant, sleep};

use crate::connection::{Link, Shared, command};
use crate::doctor::permitted;
use crate::errors::error;
use crate::scripts::Call;
use crate::topology::{Whereabouts, moved_to};

use doctor::{has_slots_on_the_move, own_slots};

pub(crate) use map::{Address, SlotMap};

const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

pub(crate) struct Cluster {
    pub(crate) shared: Arc<Shared>,
    server: ConnectionInfo,
    seeds: Vec<Address>,
    current: Arc<Current>,
    links: Mutex<HashMap<Address, Arc<Link>>>,
    /// Locked during a lookup. Has the last failure.
    looking: tokio::sync::Mutex<Option<Error>>,
    looked: AtomicU64,
    will_look: AtomicBool,
}

/// The slot map in use. An error in it costs only a redirection.
#[derive(Debug)]
pub(crate) struct Current(Mutex<Arc<SlotMap>>);

/// Each master's own list of its slots, because other nodes notice a move late. `None` if the user
/// may not run `CLUSTER NODES`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement(BTreeMap<Address, Option<String>>);

impl Placement {
    pub(crate) fn is_at_rest(&self) -> bool {
        self.0.values().all(|own| own.as_deref().is_some_and(|own| !has_slots_on_the_move(own)))
    }
}

impl Cluster {
    pub(crate) async fn connect(
        shared: Arc<Shared>,
        seeds: &[ConnectionInfo],
    ) -> Result<Arc<Self>> {
        let server = seeds[0].clone();
        let seeds = seeds.iter().filter_map(|seed| Address::of(seed.addr())).collect();
        let current = Arc::new(Current(Mutex::new(Arc::new(SlotMap::empty()))));
        shared.wakeups.route(Arc::clone(&current));
        let cluster = Arc::new(Self {
            shared,
            server,
            seeds,
            current,
            links: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            looked: AtomicU64::new(0),
            will_look: AtomicBool::new(false),
        });
        cluster.look_up().await?;
        let mut failure = None;
        for (_, link) in cluster.masters() {
            match link.live().await {
                Ok(_) => return Ok(cluster),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| unserved("any slot")))
    }

    pub(crate) fn map(&self) -> Arc<SlotMap> {
        self.current.get()
    }

    pub(crate) fn masters(&self) -> Vec<(Address, Arc<Link>)> {
        let map = self.map();
        map.masters().into_iter().map(|at| (at.clone(), self.link(at))).collect()
    }

    /// Retries while the slot moves, within the response time-out.
    pub(crate) async fn run(self: &Arc<Self>, call: Call<'_>) -> Result<Value> {
        let (begun, mut pause) = (Instant::now(), TRY_AGAIN.0);
        loop {
            if let Some(answer) = self.try_run(call).await? {
                return Ok(answer);
            }
            if begun.elapsed() >= self.shared.config.response_timeout {
                return Err(error(
                    ErrorKind::Unavailable,
                    "the Cluster is moving the lock's slot to another node; try again when that \
                     is done",
                ));
            }
            sleep(pause).await;
            pause = (pause * 2).min(TRY_AGAIN.1);
        }
    }

    pub(crate) async fn placement(self: &Arc<Self>) -> Result<Placement> {
        self.look_up().await?;
        let nodes = command(&["CLUSTER", "NODES"]);
        let mut placement = BTreeMap::new();
        for (at, link) in self.masters() {
            let nodes = permitted(link.read(&nodes).await)?;
            let nodes = nodes.and_then(|nodes| String::from_redis_value(nodes).ok());
            placement.insert(at, nodes.and_then(|nodes| own_slots(&nodes)));
        }
        Ok(Placement(placement))
    }

    async fn owner(self: &Arc<Self>, slot: u16) -> Result<Address> {
        if let Some(owner) = self.map().owner(slot) {
            return Ok(owner.clone());
        }
        self.look_up().await?;
        self.map().owner(slot).cloned().ok_or_else(|| unserved(&format!("slot {slot}")))
    }

    fn link(&self, at: &Address) -> Arc<Link> {
        let mut links = lock(&self.links);
        if let Some(link) = links.get(at) {
            return Arc::clone(link);
        }
        let to = Whereabouts::at(self.server_at(at));
        let link = Link::connect_later(Arc::clone(&self.shared), to);
        links.insert(at.clone(), Arc::clone(&link));
        link
    }

    fn server_at(&self, at: &Address) -> ConnectionInfo {
        moved_to(&self.server, at)
    }

    fn look_up_soon(self: &Arc<Self>) {
        const PAUSE: Duration = Duration::from_millis(50);

        if self.will_look.swap(true, Ordering::AcqRel) {
            return;
        }
        let cluster = Arc::clone(self);
        self.shared.runtime.spawn(async move {
            if let Err(error) = cluster.look_up().await {
                tracing::debug!(%error, "redis: the Cluster's slots could not be looked up");
            }
            sleep(PAUSE).await;
            cluster.will_look.store(false, Ordering::Release);
        });
    }
}

impl Current {
    pub(crate) fn get(&self) -> Arc<SlotMap> {
        Arc::clone(&lock(&self.0))
    }

    fn change(&self, how: impl FnOnce(&mut SlotMap)) {
        how(Arc::make_mut(&mut lock(&self.0)));
    }
}

fn unserved(what: &str) -> Error {
    error(
        ErrorKind::Unavailable,
        format!("no node of the Cluster serves {what}; `lockwright doctor` shows what is missing"),
    )
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("config", &self.shared.config)
            .field("map", &self.map())
            .finish_non_exhaustive()
    }
}
