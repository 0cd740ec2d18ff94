//! Wake-ups and notifications to holders, on three channels:
//!
//! - *released*: a lock's name, so all its waiters request it again. It follows a break, a release
//!   in a moving slot or on a quorum's node, or a script that left eligible waiters without an
//!   offer.
//! - *broken*: the token of a hold that an operator broke.
//! - *offered*, one channel per client: offers (see `offers.rs`), and recalls of holds that it may
//!   keep warm.
//!
//! A disconnected client misses messages, so each new connection wakes all waiters, and waiters
//! poll.

use std::sync::{Arc, OnceLock, Weak};

use lockwright_core::backend_util::Subscribers;
use lockwright_core::{Claim, Event, LockName, Reason, Token};
use redis::{FromRedisValue, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::SLOW_POLL;
use crate::cluster::Current;
use crate::config::Config;
use crate::fast_path::FastPath;
use crate::keys::slot_of;
use crate::offers::{self, Offers};
use crate::topology::Whereabouts;
use crate::tracking::Tracked;

#[derive(Debug)]
pub(crate) struct Wakeups {
    key_prefix: String,
    pub(crate) released: String,
    pub(crate) broken: String,
    pub(crate) subscribers: Subscribers,
    pub(crate) tracked: Tracked,
    pub(crate) offers: Offers,
    pub(crate) fast_path: FastPath,
    slots: OnceLock<Arc<Current>>,
}

impl Wakeups {
    pub(crate) fn new(config: &Config) -> Self {
        // Databases share channels.
        let scope = format!("{}:{}", config.topology.database(), config.key_prefix);
        Self {
            key_prefix: config.key_prefix.clone(),
            released: format!("lockwright:released:{scope}"),
            broken: format!("lockwright:broken:{scope}"),
            subscribers: Subscribers::new(SLOW_POLL),
            tracked: Tracked::default(),
            offers: Offers::default(),
            fast_path: FastPath::default(),
            slots: OnceLock::new(),
        }
    }

    /// Sets a Cluster's slot map. Each node's connection delivers each message, but only the slot's
    /// counts. If an old map drops one, the new connection to the right node wakes all waiters.
    pub(crate) fn route(&self, slots: Arc<Current>) {
        let _ = self.slots.set(slots);
    }

    fn counts(&self, name: &LockName, from: &Whereabouts) -> bool {
        let Some(slots) = self.slots.get() else { return true };
        let slot = slot_of(&format!("{}{name}", self.key_prefix));
        slots.get().owner(slot).is_none_or(|owner| from.is_at(owner))
    }

    pub(crate) fn channels(&self) -> [&str; 3] {
        [&self.released, &self.broken, &self.offers.channel]
    }

    pub(crate) fn hold_value(&self, claim: &Claim) -> String {
        self.fast_path.hold_value(claim, &self.offers.id)
    }

    /// Handles a report of changed keys. Without keys, any key may have changed.
    pub(crate) fn receive_changes(&self, report: &[Value]) {
        let changed: Option<Vec<String>> = match report {
            [Value::Array(keys)] => {
                let texts = keys.iter().map(|key| String::from_redis_value(key.clone()));
                Some(texts.filter_map(Result::ok).collect())
            }
            _ => None,
        };
        match &changed {
            Some(keys) => {
                let names = keys.iter().filter_map(|key| key.strip_prefix(&self.key_prefix));
                for name in names.filter_map(|name| LockName::new(name).ok()) {
                    self.subscribers.wake(&name);
                }
            }
            None => self.subscribers.wake_all(),
        }
        self.tracked.check(changed);
    }

    pub(crate) fn receive(
        self: &Arc<Self>,
        message: &[Value],
        from: &Whereabouts,
        runtime: &Handle,
    ) {
        let text = |value: Option<&Value>| String::from_redis_value(value?.clone()).ok();
        let (Some(channel), Some(text)) = (text(message.first()), text(message.get(1))) else {
            return;
        };
        let event = if channel == self.released {
            LockName::new(&text).ok().filter(|name| self.counts(name, from)).map(Event::Wake)
        } else if channel == self.broken {
            broken_hold(&text)
        } else if channel == self.offers.channel {
            if let Some((token, at)) = self.offers.receive_behind(&text) {
                runtime.spawn(ask_later(Arc::downgrade(self), token, at));
            }
            offers::recalled(&text).or_else(|| self.offers.receive(&text))
        } else {
            None
        };
        if let Some(event) = event {
            self.subscribers.send(&event);
        }
    }
}

async fn ask_later(wakeups: Weak<Wakeups>, token: Token, mut at: Instant) {
    loop {
        sleep_until(at).await;
        let Some(wakeups) = wakeups.upgrade() else { return };
        match wakeups.offers.asks_now(token) {
            Some(Err(later)) => at = later,
            Some(Ok(name)) => return wakeups.subscribers.wake(&name),
            None => return,
        }
    }
}

/// Parses `now TOKEN` for an ended hold, or `run-out TOKEN` for a hold that can't be renewed. Both
/// are losses.
pub(crate) fn broken_hold(text: &str) -> Option<Event> {
    let (how, token) = text.split_once(' ')?;
    matches!(how, "now" | "run-out").then_some(())?;
    Some(Event::Lost(token.parse().ok()?, Reason::Broken))
}
