//! Notifications by the nodes, forwarded to the attached clients.
//!
//! A quorum's wake-up is forwarded at once. Messages can be lost, so a minority's is forwarded
//! after a random pause, because clients with split votes must not retry together. A hold's first
//! risk or loss is forwarded as `AtRisk`, and the loss that leaves no quorum as `Lost`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::{Clients, Jitter, lock};
use lockwright_core::{Event, Events, LockName, Reason, Token};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::node::Node;
use crate::token_states::Nodes;

/// The most names, and the most tokens. Beyond it, all are dropped, because clients poll and renew.
const MOST: usize = 10_000;

/// The period in which the nodes' losses of one hold are counted together.
const LOSS_WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Wakeups {
    quorum: usize,
    spare: usize,
    minority_pause: Duration,
    random: Jitter,
    runtime: Handle,
    pub(crate) clients: Clients,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    wakes: HashMap<LockName, Wake>,
    losses: HashMap<Token, Loss>,
    count: u64,
}

#[derive(Debug)]
struct Wake {
    number: u64,
    by: Nodes,
    is_done: bool,
}

#[derive(Debug)]
struct Loss {
    since: Instant,
    by: Nodes,
    at_risk: bool,
    is_reported: bool,
}

impl Wakeups {
    pub(crate) fn attach_to(
        nodes: &[Arc<dyn Node>],
        quorum: usize,
        minority_pause: Duration,
        random: Jitter,
        runtime: Handle,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            quorum,
            spare: nodes.len() - quorum,
            minority_pause,
            random,
            runtime,
            clients: Clients::default(),
            seen: Mutex::default(),
        });
        for (at, node) in nodes.iter().enumerate() {
            let this = Arc::downgrade(&this);
            node.attach(Events::to(move |event| match this.upgrade() {
                Some(this) => {
                    this.on_event(at, event);
                    true
                }
                None => false,
            }));
        }
        this
    }

    fn on_event(self: &Arc<Self>, at: usize, event: Event) {
        match event {
            Event::Wake(name) => self.wake(at, name),
            Event::AtRisk(token) => self.risk(at, token, None),
            Event::Lost(token, reason) => self.risk(at, token, Some(reason)),
            // A single node grants no lock, so it sends no `Handed`. Clients ignore `Recall`.
            _ => {}
        }
    }

    fn wake(self: &Arc<Self>, at: usize, name: LockName) {
        let has_quorum = {
            let mut seen = lock(&self.seen);
            seen.count += 1;
            let number = seen.count;
            let fresh = seen.wakes.get(&name).is_none_or(|wake| wake.by.contains(at));
            if fresh {
                if seen.wakes.len() >= MOST {
                    seen.wakes.clear();
                }
                let wake = Wake { number, by: Nodes::default(), is_done: false };
                seen.wakes.insert(name.clone(), wake);
                self.forward_later(name.clone(), number);
            }
            let Some(wake) = seen.wakes.get_mut(&name) else { return };
            wake.by.add(at);
            let has_quorum = !wake.is_done && wake.by.count() >= self.quorum;
            wake.is_done |= has_quorum;
            has_quorum
        };
        if has_quorum {
            self.clients.send(&Event::Wake(name));
        }
    }

    fn forward_later(self: &Arc<Self>, name: LockName, number: u64) {
        let pause = self.minority_pause + self.random.below(self.minority_pause * 2);
        let this = Arc::downgrade(self);
        self.runtime.spawn(async move {
            sleep(pause).await;
            let Some(this) = Weak::upgrade(&this) else { return };
            let wake = {
                let mut seen = lock(&this.seen);
                match seen.wakes.get(&name) {
                    Some(wake) if wake.number == number => seen.wakes.remove(&name),
                    _ => None,
                }
            };
            if wake.is_some_and(|wake| !wake.is_done) {
                this.clients.send(&Event::Wake(name));
            }
        });
    }

    fn risk(&self, at: usize, token: Token, lost: Option<Reason>) {
        let (is_first, has_no_quorum) = {
            let mut seen = lock(&self.seen);
            let now = Instant::now();
            if seen.losses.len() >= MOST {
                seen.losses.retain(|_, loss| now < loss.since + LOSS_WINDOW);
                if seen.losses.len() >= MOST {
                    seen.losses.clear();
                }
            }
            let fresh =
                || Loss { since: now, by: Nodes::default(), at_risk: false, is_reported: false };
            let loss = seen.losses.entry(token).or_insert_with(fresh);
            if now >= loss.since + LOSS_WINDOW {
                *loss = fresh();
            }
            if lost.is_some() {
                loss.by.add(at);
            }
            let has_no_quorum =
                loss.by.count() > self.spare && !std::mem::replace(&mut loss.is_reported, true);
            (!std::mem::replace(&mut loss.at_risk, true), has_no_quorum)
        };
        if is_first {
            self.clients.send(&Event::AtRisk(token));
        }
        if let Some(reason) = lost.filter(|_| has_no_quorum) {
            self.clients.send(&Event::Lost(token, reason));
        }
    }
}
