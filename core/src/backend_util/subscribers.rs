use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{Clients, lock};
use crate::{Event, Events, LockName};

/// The clients of one backend, and the names that they wait for.
#[derive(Debug)]
pub struct Subscribers {
    forgotten_after: Duration,
    clients: Clients,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    names: HashMap<LockName, Instant>,
    sweep_at: usize,
}

impl Default for Subscribers {
    fn default() -> Self {
        Self::new(Duration::from_secs(1))
    }
}

impl Subscribers {
    /// Creates an empty set. A name is removed three times `slow_poll` after a waiter's last poll.
    pub fn new(slow_poll: Duration) -> Self {
        Self {
            forgotten_after: slow_poll.saturating_mul(3),
            clients: Clients::default(),
            waiting: Mutex::default(),
        }
    }

    /// Adds a client.
    pub fn attach(&self, events: Events) {
        self.clients.attach(events);
    }

    /// Records that a client waits for `name`.
    pub fn waits(&self, name: &LockName) {
        let now = Instant::now();
        let mut waiting = lock(&self.waiting);
        waiting.names.insert(name.clone(), now);
        if waiting.names.len() > waiting.sweep_at {
            waiting.forget(now, self.forgotten_after);
            waiting.sweep_at = 2 * waiting.names.len() + 64;
        }
    }

    /// Returns whether any client waits for a name.
    pub fn anybody(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.forget(Instant::now(), self.forgotten_after);
        !waiting.names.is_empty()
    }

    /// Sends a wake-up to all clients if any client waits for `name`.
    pub fn wake(&self, name: &LockName) {
        let somebody = lock(&self.waiting).names.contains_key(name);
        if somebody {
            self.send(&Event::Wake(name.clone()));
        }
    }

    /// Wakes all waiters. Call it when notifications may have been lost.
    pub fn wake_all(&self) {
        let names: Vec<LockName> = {
            let mut waiting = lock(&self.waiting);
            waiting.forget(Instant::now(), self.forgotten_after);
            waiting.names.keys().cloned().collect()
        };
        for name in names {
            self.send(&Event::Wake(name));
        }
    }

    /// Sends an event to all clients.
    pub fn send(&self, event: &Event) {
        self.clients.send(event);
    }
}

impl Waiting {
    fn forget(&mut self, now: Instant, after: Duration) {
        self.names.retain(|_, seen| now.duration_since(*seen) < after);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    fn name(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn only_those_who_wait_are_woken_and_who_has_gone_is_forgotten() {
        let subscribers = Subscribers::new(Duration::from_secs(1));
        let (calls, there) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        let (count, is_there) = (Arc::clone(&calls), Arc::clone(&there));
        subscribers.attach(Events::to(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            is_there.load(Ordering::SeqCst)
        }));
        subscribers.wake(&name("a"));
        assert_eq!(calls.load(Ordering::SeqCst), 0, "there is no waiter");
        subscribers.waits(&name("a"));
        subscribers.wake(&name("b"));
        assert_eq!(calls.load(Ordering::SeqCst), 0, "this name has no waiter");
        subscribers.wake(&name("a"));
        subscribers.wake_all();
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        there.store(false, Ordering::SeqCst);
        subscribers.wake(&name("a"));
        subscribers.wake(&name("a"));
        assert_eq!(calls.load(Ordering::SeqCst), 3, "it was called once more and then no longer");
    }

    #[test]
    fn a_waiter_that_is_not_heard_of_is_forgotten() {
        let subscribers = Subscribers::new(Duration::ZERO);
        subscribers.waits(&name("a"));
        assert!(!subscribers.anybody());
        let subscribers = Subscribers::new(Duration::from_secs(10));
        subscribers.waits(&name("a"));
        assert!(subscribers.anybody());
    }
}
