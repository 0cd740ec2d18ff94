use std::sync::{Arc, Mutex};

use super::lock;
use crate::{Event, Events, LockName};

/// Above this number of clients, [`Clients::attach`] removes those that no longer exist.
const FEW: usize = 64;

/// The clients of one backend. No mutex is locked while events are sent, because a receiver may
/// call the backend.
#[derive(Debug, Default)]
pub struct Clients(Mutex<Attached>);

#[derive(Debug, Default)]
struct Attached {
    clients: Arc<Vec<Events>>,
    sweep_at: usize,
}

impl Clients {
    /// Adds a client.
    pub fn attach(&self, events: Events) {
        let must_sweep = {
            let attached = lock(&self.0);
            attached.clients.len() > attached.sweep_at.max(FEW)
        };
        if must_sweep && let Ok(name) = LockName::new("lockwright") {
            // `send` removes clients that no longer exist. The wake-up has no other effect.
            self.send(&Event::Wake(name));
            let mut attached = lock(&self.0);
            attached.sweep_at = 2 * attached.clients.len();
        }
        Arc::make_mut(&mut lock(&self.0).clients).push(events);
    }

    /// Sends an event to all clients, and removes the clients that no longer exist.
    pub fn send(&self, event: &Event) {
        let clients = Arc::clone(&lock(&self.0).clients);
        let exists: Vec<bool> = clients.iter().map(|client| client.send(event.clone())).collect();
        if !exists.contains(&false) {
            return;
        }
        let mut attached = lock(&self.0);
        // If another task changed the list, the positions in `exists` are wrong, so a later event
        // removes the clients.
        if Arc::ptr_eq(&attached.clients, &clients) {
            drop(clients);
            let mut exists = exists.into_iter();
            Arc::make_mut(&mut attached.clients).retain(|_| exists.next() == Some(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn clients_that_are_gone_are_removed_without_an_event() {
        let (clients, woken) = (Clients::default(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&woken);
        clients.attach(Events::to(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            true
        }));
        for _ in 0..10_000 {
            clients.attach(Events::to(|_| false));
            assert!(lock(&clients.0).clients.len() <= FEW + 2);
        }
        woken.store(0, Ordering::SeqCst);
        clients.send(&Event::Wake(LockName::new("x").unwrap()));
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        assert_eq!(lock(&clients.0).clients.len(), 1);
    }
}
