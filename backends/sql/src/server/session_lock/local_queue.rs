//! The local queue of each name. Only the first waiter blocks in the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use lockwright_core::LockName;
use lockwright_core::backend_util::lock;
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<LockName, Weak<Turnstile<()>>>>);

/// The right to block in the server, which ends when it is dropped.
pub(super) type Turn = OwnedMutexGuard<()>;

impl Queues {
    /// Waits for the turn. Dropping the future leaves the queue.
    pub(super) async fn enter(&self, name: &LockName) -> Turn {
        let turnstile = {
            let mut names = lock(&self.0);
            names.retain(|_, turnstile| turnstile.strong_count() > 0);
            let turnstile: Arc<_> = names.get(name).and_then(Weak::upgrade).unwrap_or_default();
            names.insert(name.clone(), Arc::downgrade(&turnstile));
            turnstile
        };
        turnstile.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn it_is_first_come_first_served_and_leaves_nothing() {
        let queues = Queues::default();
        let [name, other] = ["x", "y"].map(|name| LockName::new(name).unwrap());
        let first = queues.enter(&name).await;
        let mut waiting = [(); 2].map(|()| Box::pin(queues.enter(&name)));
        assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let [second, mut third] = waiting;
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        drop(third.await);
        drop(queues.enter(&other).await);
        assert_eq!(lock(&queues.0).keys().collect::<Vec<_>>(), [&other]);
    }
}
