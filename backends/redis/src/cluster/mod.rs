//! A Redis Cluster: each request goes to the node that serves the slot of its keys.
//!
//! The routing is our own, over one [`Link`] for each master in use. The client library's Cluster
//! client would do less than a lock needs and more than it may: it sends a request again up to
//! sixteen times whatever became of it, so that nobody knows whether an earlier one still comes; it
//! keeps the connection to a node that froze; and it can't send the renewals of many slots at once
//! with an end for each. A link has the watchdog already, and sends nothing twice.
//!
//! What the nodes answer instead of an answer:
//!
//! | answer | means | so |
//! |---|---|---|
//! | `MOVED` | another node serves the slot; nothing was done | it goes there, and the map is looked up anew |
//! | `ASK` | the slot is on the move, and the keys have left already | it goes there behind an `ASKING`, this once |
//! | `TRYAGAIN` | the slot is on the move, and one of the keys is missing | see `moving.rs` |
//! | `CLUSTERDOWN` | too many nodes are gone | unavailable; the map is looked up anew |
//! | none | anything | indeterminate, and never sent again from here; the map is looked up anew |
//!
//! A node that can't be connected to was sent nothing: then the map is looked up, and if another
//! node serves the slot by now, the request goes there.

pub(crate) mod doctor;
mod lookup;
pub(crate) mod map;
pub(crate) mod moving;
mod renewing;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockwright_core::{Error, ErrorKind, Result};
use redis::{Cmd, ConnectionInfo, FromRedisValue, RedisError, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::config::Config;
use crate::connection::{Link, Live};
use crate::doctor::permitted;
use crate::errors::{self, Effect, error};
use crate::failure::Failure;
use crate::keys::slot_of;
use crate::scripts::Script;
use crate::topology::{Topology, Whereabouts, moved_to};
use crate::wakeup::Wakeups;

use doctor::{has_slots_on_the_move, own_slots};

pub(crate) use map::{Address, SlotMap};

/// How many redirections are followed: nodes that don't agree would send a request round for ever.
const REDIRECTIONS: u32 = 8;

/// How soon a slot on the move is tried again at first, and how soon at last. A few keys have moved
/// within the first time; a slot with many takes longer than anybody waits.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

static ASKING: LazyLock<Cmd> = LazyLock::new(|| redis::cmd("ASKING"));

/// The nodes of a Cluster.
pub(crate) struct Cluster {
    config: Arc<Config>,
    wakeups: Arc<Wakeups>,
    /// What every node is reached with, but for its address.
    server: ConnectionInfo,
    seeds: Vec<Address>,
    current: Arc<Current>,
    links: Mutex<HashMap<Address, Arc<Link>>>,
    /// Held by whoever looks the map up; inside, how that failed last, if it did.
    looking: tokio::sync::Mutex<Option<Failure>>,
    /// How often it was looked up, with whatever success.
    looked: AtomicU64,
    /// Whether a look in the background is to come.
    will_look: AtomicBool,
    runtime: Handle,
}

/// The map that is believed now. A wrong one costs a redirection, and nothing else: no node carries
/// out what isn't its own.
#[derive(Debug)]
pub(crate) struct Current(Mutex<Arc<SlotMap>>);

/// What each master says of its own slots, or `None` where it may not be asked. The others hear of a
/// move later, so that what they say may be the same before and after it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement(BTreeMap<Address, Option<String>>);

impl Placement {
    /// Whether no slot is on the move, as far as anybody says.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.0.values().all(|own| own.as_deref().is_some_and(|own| !has_slots_on_the_move(own)))
    }
}

/// Something to be done where a slot is served.
struct Request<'r> {
    slot: u16,
    what: What<'r>,
    effect: Effect,
    /// What is to go right ahead of it.
    before: Option<&'r Cmd>,
}

#[derive(Clone, Copy)]
enum What<'r> {
    Script { script: &'r Script, keys: &'r [&'r str], arguments: &'r [&'r str] },
    Command(&'r Cmd),
}

impl Cluster {
    /// Finds the nodes, and connects to one of them at least.
    pub(crate) async fn connect(config: Arc<Config>, wakeups: Arc<Wakeups>) -> Result<Arc<Self>> {
        let runtime = Handle::try_current().map_err(|_| {
            error(ErrorKind::InvalidConfig, "connecting needs a tokio runtime; there is none here")
        })?;
        let (server, seeds) = match &config.topology {
            Topology::Cluster { seeds } => {
                let addresses = seeds.iter().filter_map(|seed| Address::of(seed.addr())).collect();
                (seeds.first().cloned(), addresses)
            }
            _ => (None, Vec::new()),
        };
        let Some(server) = server else {
            return Err(error(ErrorKind::InvalidConfig, "no node of the Cluster is named"));
        };
        let current = Arc::new(Current(Mutex::new(Arc::new(SlotMap::empty()))));
        wakeups.route(Arc::clone(&current));
        let cluster = Arc::new(Self {
            config,
            wakeups,
            server,
            seeds,
            current,
            links: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            looked: AtomicU64::new(0),
            will_look: AtomicBool::new(false),
            runtime,
        });
        cluster.look_up().await?;
        let mut failure = None;
        for (_, link) in cluster.masters() {
            match link.live().await {
                Ok(_) => return Ok(cluster),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| nobody_serves("any slot")))
    }

    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    pub(crate) fn wakeups(&self) -> &Arc<Wakeups> {
        &self.wakeups
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The map that is believed now.
    pub(crate) fn map(&self) -> Arc<SlotMap> {
        self.current.get()
    }

    /// Each master that serves a slot.
    pub(crate) fn masters(&self) -> Vec<(Address, Arc<Link>)> {
        let map = self.map();
        let masters = map.masters().iter();
        masters.filter_map(|at| Some((at.clone(), self.link(at).ok()?))).collect()
    }

    /// Runs a script where its keys are. While their slot is on the move it waits for that, within
    /// the time that a server has for an answer.
    pub(crate) async fn run(
        self: &Arc<Self>,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        effect: Effect,
    ) -> Result<Value> {
        let (begun, mut pause) = (Instant::now(), TRY_AGAIN.0);
        loop {
            if let Some(answer) = self.try_run(script, keys, arguments, effect).await? {
                return Ok(answer);
            }
            if begun.elapsed() >= self.config.response_timeout {
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

    /// The same, but `None` when the slot is on the move and nobody has all the keys.
    pub(crate) async fn try_run(
        self: &Arc<Self>,
        script: &Script,
        keys: &[&str],
        arguments: &[&str],
        effect: Effect,
    ) -> Result<Option<Value>> {
        let slot = keys.first().map_or(0, |key| slot_of(key));
        let what = What::Script { script, keys, arguments };
        self.route(&Request { slot, what, effect, before: None }).await
    }

    /// Sends a command about keys of one slot to where they are, right behind `before`. While the
    /// slot is on the move, and nobody has all of them or can be prepared, the answer is nil.
    pub(crate) async fn command(
        self: &Arc<Self>,
        key: &str,
        before: Option<&Cmd>,
        command: &Cmd,
        effect: Effect,
    ) -> Result<Value> {
        let what = What::Command(command);
        let request = Request { slot: slot_of(key), what, effect, before };
        Ok(self.route(&request).await?.unwrap_or(Value::Nil))
    }

    async fn route(self: &Arc<Self>, request: &Request<'_>) -> Result<Option<Value>> {
        let begun = Instant::now();
        let mut looked = false;
        let mut redirected = None;
        for redirections in 0..REDIRECTIONS {
            let (at, is_asking) = match redirected.take() {
                Some(redirected) => redirected,
                None => (self.owner(request.slot).await?, false),
            };
            let link = self.link(&at)?;
            let live = match link.live().await {
                Ok(live) => live,
                Err(failure) => {
                    // Nothing was sent. The node may have been replaced.
                    if looked || begun.elapsed() >= self.config.response_timeout {
                        self.look_up_soon();
                        return Err(failure);
                    }
                    looked = true;
                    let _ = self.look_up().await;
                    if self.map().owner(request.slot).is_none_or(|owner| *owner == at) {
                        return Err(failure);
                    }
                    continue;
                }
            };
            let cause = match request.send(&link, &live, is_asking).await {
                Ok(Ok(answer)) => return Ok(Some(answer)),
                Ok(Err(cause)) => cause,
                Err(error) => {
                    self.look_up_soon();
                    return Err(error);
                }
            };
            let to = cause.redirect_node().and_then(|(to, _)| Address::redirected(to, &at));
            match (cause.kind(), to) {
                (redis::ErrorKind::Server(ServerErrorKind::TryAgain), _) => return Ok(None),
                // What must go right ahead would be in the way of what lets it in.
                (redis::ErrorKind::Server(ServerErrorKind::Ask), _) if request.before.is_some() => {
                    return Ok(None);
                }
                (redis::ErrorKind::Server(ServerErrorKind::Ask), Some(to)) => {
                    redirected = Some((to, true));
                }
                (redis::ErrorKind::Server(ServerErrorKind::Moved), Some(to)) => {
                    self.current.change(|map| map.moved(request.slot, &to));
                    self.look_up_soon();
                    redirected = Some((to, false));
                }
                _ => {
                    let is_down = cause.code() == Some("CLUSTERDOWN");
                    if is_down || cause.is_io_error() || errors::wants_another_server(&cause) {
                        self.look_up_soon();
                    }
                    return Err(errors::translate(cause, request.effect));
                }
            }
            if begun.elapsed() >= self.config.response_timeout {
                break;
            }
            // The first one is the rule when a slot was moved. From the second on nodes disagree.
            if redirections > 0 {
                sleep(Duration::from_millis(1 << redirections)).await;
            }
        }
        Err(error(
            ErrorKind::Unavailable,
            "the Cluster's nodes do not agree on which of them has the lock's slot; try again",
        ))
    }

    /// Which node has which slot at this moment, for who wants to know later whether that changed.
    pub(crate) async fn placement(self: &Arc<Self>) -> Result<Placement> {
        self.look_up().await?;
        let mut nodes = redis::cmd("CLUSTER");
        nodes.arg("NODES");
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
        self.map().owner(slot).cloned().ok_or_else(|| nobody_serves(&format!("slot {slot}")))
    }

    fn link(&self, at: &Address) -> Result<Arc<Link>> {
        let mut links = self.links();
        if let Some(link) = links.get(at) {
            return Ok(Arc::clone(link));
        }
        // On the runtime of the beginning, which the caller's may not outlive.
        let _entered = self.runtime.enter();
        let to = Whereabouts::at(self.server_at(at));
        let (config, wakeups) = (Arc::clone(&self.config), Arc::clone(&self.wakeups));
        let link = Link::connect_later(config, wakeups, to)?;
        links.insert(at.clone(), Arc::clone(&link));
        Ok(link)
    }

    fn server_at(&self, at: &Address) -> ConnectionInfo {
        moved_to(&self.server, &at.host, at.port)
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Address, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks the map up in the background, unless somebody is about to.
    fn look_up_soon(self: &Arc<Self>) {
        /// So that many failures together don't become many looks.
        const REST: Duration = Duration::from_millis(50);

        if self.will_look.swap(true, Ordering::AcqRel) {
            return;
        }
        let cluster = Arc::clone(self);
        self.runtime.spawn(async move {
            if let Err(error) = cluster.look_up().await {
                tracing::debug!(%error, "redis: the Cluster's slots could not be looked up");
            }
            sleep(REST).await;
            cluster.will_look.store(false, Ordering::Release);
        });
    }
}

impl Request<'_> {
    async fn send(
        &self,
        link: &Arc<Link>,
        live: &Live,
        is_asking: bool,
    ) -> Result<Result<Value, RedisError>> {
        let before = if is_asking { Some(&*ASKING) } else { self.before };
        match self.what {
            What::Script { script, keys, arguments } => {
                link.try_run_on(live, before, script, keys, arguments, self.effect).await
            }
            What::Command(command) => link.ask(live, before, command, self.effect).await,
        }
    }
}

impl Current {
    pub(crate) fn get(&self) -> Arc<SlotMap> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, how: impl FnOnce(&mut SlotMap)) {
        how(Arc::make_mut(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

fn nobody_serves(what: &str) -> Error {
    error(
        ErrorKind::Unavailable,
        format!("no node of the Cluster serves {what}; `lockwright doctor` shows what is missing"),
    )
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("config", &self.config)
            .field("map", &self.map())
            .finish_non_exhaustive()
    }
}
