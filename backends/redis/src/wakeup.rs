//! How a client hears that a lock may be free, or that an operator broke its hold.
//!
//! Each client subscribes to three channels, on the connection that it has anyway:
//!
//! - *released*: the name of a lock that everybody who waits for it should ask for again: it was
//!   broken, or released while its slot was on the move, or by a node of a quorum; or more could have
//!   it than one script should offer it to. A release as such tells only whom it offers the lock to;
//!   locks without contention cost the other clients nothing.
//! - *broken*: the token of a hold that an operator broke, for its holder;
//! - *offered*, a channel of its own: see `offers.rs`.
//!
//! What others do to our keys is heard in another way: see `tracking.rs`.
//!
//! Both are hints. Messages get lost while there is no connection, so after each new subscription
//! everybody who waited is woken; and a waiter polls anyway.

use std::sync::{Arc, OnceLock, Weak};

use lockwright_core::kit::Audience;
use lockwright_core::{Event, LockName, Reason, Token};
use redis::{FromRedisValue, Value};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::SLOW_POLL;
use crate::cluster::Current;
use crate::config::Config;
use crate::keys::slot_of;
use crate::offers::Offers;
use crate::topology::Whereabouts;
use crate::tracking::Tracked;

#[derive(Debug)]
pub(crate) struct Wakeups {
    key_prefix: String,
    released: String,
    broken: String,
    audience: Audience,
    tracked: Tracked,
    offers: Offers,
    /// Who serves which slot, in a Cluster.
    slots: OnceLock<Arc<Current>>,
}

impl Wakeups {
    pub(crate) fn new(config: &Config) -> Self {
        // Channels know no databases, and two prefixes are two worlds.
        let scope = format!("{}:{}", config.topology.database(), config.key_prefix);
        Self {
            key_prefix: config.key_prefix.clone(),
            released: format!("lockwright:released:{scope}"),
            broken: format!("lockwright:broken:{scope}"),
            audience: Audience::new(SLOW_POLL),
            tracked: Tracked::default(),
            offers: Offers::default(),
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

    pub(crate) fn channels(&self) -> [&str; 3] {
        [&self.released, &self.broken, self.offers.channel()]
    }

    /// The clients, and who of them waits.
    pub(crate) fn audience(&self) -> &Audience {
        &self.audience
    }

    /// What is heard of the keys themselves.
    pub(crate) fn tracked(&self) -> &Tracked {
        &self.tracked
    }

    /// Who waits in queues, and what was offered.
    pub(crate) fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Takes a message: its channel and what was published there.
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
        } else if channel == self.offers.channel() {
            if let Some((token, at)) = self.offers.receive_behind(&text) {
                runtime.spawn(ask_later(Arc::downgrade(self), token, at));
            }
            self.offers.receive(&text)
        } else {
            None
        };
        if let Some(event) = event {
            self.audience.send(&event);
        }
    }
}

/// Wakes a waiter when the offers to other waiters have lapsed.
async fn ask_later(wakeups: Weak<Wakeups>, token: Token, mut at: Instant) {
    loop {
        sleep_until(at).await;
        let Some(wakeups) = wakeups.upgrade() else { return };
        match wakeups.offers.asks_now(token) {
            Some(Err(later)) => at = later,
            Some(Ok(name)) => return wakeups.audience.wake(&name),
            None => return,
        }
    }
}

/// `now TOKEN`: it has ended. `run-out TOKEN`: it can't be renewed. To its holder both are a loss;
/// the name of one that runs out stays taken until the holder is done, or until its end.
fn broken_hold(text: &str) -> Option<Event> {
    let (how, token) = text.split_once(' ')?;
    matches!(how, "now" | "run-out").then_some(())?;
    Some(Event::Lost(token.parse().ok()?, Reason::Broken))
}
