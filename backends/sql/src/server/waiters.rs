//! Who waits here, and how they are told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lockwright_core::{Event, Events, LockName};

/// A waiter asks at least once in a slow poll. One that has not been heard of for so long has gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// The clients of one backend, and the names that they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    attached: Mutex<Arc<Vec<Events>>>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    names: HashMap<LockName, Instant>,
    /// At how many names those that have gone are looked for.
    sweep_at: usize,
}

#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
impl Waiters {
    pub(crate) fn attach(&self, events: Events) {
        Arc::make_mut(&mut self.attached()).push(events);
    }

    /// Remembers that somebody waits for `name`.
    pub(crate) fn waits(&self, name: &LockName) {
        let now = Instant::now();
        let mut waiting = self.waiting();
        waiting.names.insert(name.clone(), now);
        if waiting.names.len() > waiting.sweep_at {
            waiting.forget(now);
            waiting.sweep_at = 2 * waiting.names.len() + 64;
        }
    }

    /// Whether somebody waits for anything.
    pub(crate) fn anybody(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.forget(Instant::now());
        !waiting.names.is_empty()
    }

    /// Tells those who wait for this name, if there are any.
    pub(crate) fn wake(&self, name: &str) {
        // Names that nobody waits for here cost nobody anything.
        let Ok(name) = LockName::new(name) else { return };
        let somebody = self.waiting().names.contains_key(&name);
        if somebody {
            self.send(&Event::Wake(name));
        }
    }

    /// Tells everybody who waits: something may have gone unheard.
    pub(crate) fn wake_all(&self) {
        let names: Vec<LockName> = {
            let mut waiting = self.waiting();
            waiting.forget(Instant::now());
            waiting.names.keys().cloned().collect()
        };
        for name in names {
            self.send(&Event::Wake(name));
        }
    }

    /// No lock of ours is held meanwhile: the client may do as it likes in its sink.
    fn send(&self, event: &Event) {
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

impl Waiting {
    fn forget(&mut self, now: Instant) {
        self.names.retain(|_, heard| now.duration_since(*heard) < FORGOTTEN_AFTER);
    }
}
