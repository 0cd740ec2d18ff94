//! How a client hears that a lock may be free, or that an operator broke its hold.
//!
//! Each client subscribes to two channels, on the connection that it has anyway:
//!
//! - *released*: the name of a lock that was released **while somebody waited for it**. Whoever
//!   finds a lock held and means to wait leaves a mark on the hold; a release without a mark tells
//!   nobody, so that locks without contention cost the other clients nothing.
//! - *broken*: the token of a hold that an operator broke, for its holder.
//!
//! What others do to our keys is heard in another way: see `tracking.rs`.
//!
//! Both are hints. Messages get lost while there is no connection, so after each new subscription
//! everybody who waited is woken; and a waiter polls anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lockwright_core::{Event, Events, LockName, Reason};
use redis::{FromRedisValue, Value};

use crate::SLOW_POLL;
use crate::cluster::Current;
use crate::config::Config;
use crate::keys::slot_of;
use crate::topology::Whereabouts;
use crate::tracking::Tracked;

/// A waiter asks at least once each [`SLOW_POLL`]. One that has not been heard of for much longer
/// has gone.
const FORGOTTEN_AFTER: Duration = SLOW_POLL.saturating_mul(10);

#[derive(Debug)]
pub(crate) struct Wakeups {
    key_prefix: String,
    released: String,
    broken: String,
    attached: Mutex<Arc<Vec<Events>>>,
    waiting: Mutex<Waiting>,
    tracked: Tracked,
    /// Who serves which slot, in a Cluster.
    slots: OnceLock<Arc<Current>>,
}

#[derive(Debug, Default)]
struct Waiting {
    names: HashMap<LockName, Instant>,
    /// At how many names those that have gone are looked for.
    sweep_at: usize,
}

impl Wakeups {
    pub(crate) fn new(config: &Config) -> Self {
        // Channels know no databases, and two prefixes are two worlds.
        let scope = format!("{}:{}", config.topology.database(), config.key_prefix);
        Self {
            key_prefix: config.key_prefix.clone(),
            released: format!("lockwright:released:{scope}"),
            broken: format!("lockwright:broken:{scope}"),
            attached: Mutex::default(),
            waiting: Mutex::default(),
            tracked: Tracked::default(),
            slots: OnceLock::new(),
        }
    }

    /// In a Cluster each connection gets each message, as the nodes pass them on. From here on a
    /// wake-up counts where the one that serves its lock is connected, and is woken by once. That is
    /// where whoever waits has asked. (While the map is wrong it may count nowhere; the connection
    /// to the right node then wakes everybody as it is made.)
    pub(crate) fn route(&self, slots: Arc<Current>) {
        let _ = self.slots.set(slots);
    }

    fn counts(&self, name: &LockName, from: &Whereabouts) -> bool {
        let Some(slots) = self.slots.get() else { return true };
        let slot = slot_of(&format!("{}{name}", self.key_prefix));
        slots.get().owner(slot).is_none_or(|owner| from.is_at(&owner.host, owner.port))
    }

    /// The channel that gets the names of released locks.
    pub(crate) fn released(&self) -> &str {
        &self.released
    }

    /// The channel that gets the tokens of broken holds.
    pub(crate) fn broken(&self) -> &str {
        &self.broken
    }

    pub(crate) fn channels(&self) -> [&str; 2] {
        [&self.released, &self.broken]
    }

    pub(crate) fn attach(&self, events: Events) {
        Arc::make_mut(&mut self.attached()).push(events);
    }

    /// Remembers that somebody waits for `name`.
    pub(crate) fn waits(&self, name: &LockName) {
        let now = Instant::now();
        let mut waiting = self.waiting();
        waiting.names.insert(name.clone(), now);
        if waiting.names.len() > waiting.sweep_at {
            waiting.names.retain(|_, heard| now.duration_since(*heard) < FORGOTTEN_AFTER);
            waiting.sweep_at = 2 * waiting.names.len() + 64;
        }
    }

    /// What is heard of the keys themselves.
    pub(crate) fn tracked(&self) -> &Tracked {
        &self.tracked
    }

    /// Wakes those who wait for `name`, if somebody did lately.
    pub(crate) fn wake_if_waited_for(&self, name: LockName) {
        if self.waiting().names.contains_key(&name) {
            self.send(&Event::Wake(name));
        }
    }

    /// Wakes everybody who waited lately.
    pub(crate) fn wake_all(&self) {
        let now = Instant::now();
        let names: Vec<LockName> = self
            .waiting()
            .names
            .iter()
            .filter(|(_, heard)| now.duration_since(**heard) < FORGOTTEN_AFTER)
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.send(&Event::Wake(name));
        }
    }

    /// Takes a message: its channel and what was published there.
    pub(crate) fn receive(&self, message: &[Value], from: &Whereabouts) {
        let text = |value: Option<&Value>| String::from_redis_value(value?.clone()).ok();
        let (Some(channel), Some(text)) = (text(message.first()), text(message.get(1))) else {
            return;
        };
        let event = if channel == self.released {
            LockName::new(&text).ok().filter(|name| self.counts(name, from)).map(Event::Wake)
        } else if channel == self.broken {
            broken_hold(&text)
        } else {
            None
        };
        if let Some(event) = event {
            self.send(&event);
        }
    }

    /// No lock of ours is held here: the client may do as it likes in its sink.
    pub(crate) fn send(&self, event: &Event) {
        let attached = Arc::clone(&self.attached());
        let gone: Vec<usize> = attached
            .iter()
            .enumerate()
            .filter_map(|(at, events)| (!events.send(event.clone())).then_some(at))
            .collect();
        if gone.is_empty() {
            return;
        }
        let mut present = self.attached();
        // Clients are only ever added at the end, unless somebody else removed those that had gone.
        if Arc::ptr_eq(&present, &attached) {
            let mut at = 0;
            let staying = |_: &Events| {
                at += 1;
                !gone.contains(&(at - 1))
            };
            Arc::make_mut(&mut present).retain(staying);
        }
    }

    fn attached(&self) -> MutexGuard<'_, Arc<Vec<Events>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `now TOKEN`: it has ended. `run-out TOKEN`: it can't be renewed. To its holder both are a loss;
/// the name of one that runs out stays taken until the holder is done, or until its end.
fn broken_hold(text: &str) -> Option<Event> {
    let (how, token) = text.split_once(' ')?;
    matches!(how, "now" | "run-out").then_some(())?;
    Some(Event::Lost(token.parse().ok()?, Reason::Broken))
}
