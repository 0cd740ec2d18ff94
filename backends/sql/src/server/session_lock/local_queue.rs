//! The local queue of each name. Only the first waiter blocks in the server. The others follow in
//! the order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lockwright_core::LockName;
use lockwright_core::backend_util::lock;
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

#[derive(Debug, Default)]
pub(super) struct Queues(Mutex<HashMap<LockName, Arc<Turnstile<()>>>>);

/// The right to block in the server. Dropping it passes the turn to the next waiter.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    queues: &'a Queues,
    name: LockName,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Queues {
    /// Waits for the turn. Dropping the future leaves the queue.
    pub(super) async fn enter(&self, name: &LockName) -> Turn<'_> {
        let turnstile = Arc::clone(lock(&self.0).entry(name.clone()).or_default());
        // Dropping the future during the wait drops `turn`, which removes the map's entry if it is
        // unused.
        let mut turn = Turn { queues: self, name: name.clone(), turn: None };
        turn.turn = Some(turnstile.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut names = lock(&self.queues.0);
        // While `names` is locked, no waiter can take a new reference.
        if names.get(&self.name).is_some_and(|turnstile| Arc::strong_count(turnstile) == 1) {
            names.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_first_come_first_served_and_leaves_nothing() {
        let queues = Queues::default();
        let name = LockName::new("x").unwrap();
        let first = queues.enter(&name).await;
        let (mut second, mut third) =
            (Box::pin(queues.enter(&name)), Box::pin(queues.enter(&name)));
        for waiting in [&mut second, &mut third] {
            assert!(futures_now(waiting).await.is_none());
        }
        drop(first);
        assert!(futures_now(&mut third).await.is_none());
        drop(second);
        drop(third.await);
        assert!(queues.0.lock().unwrap().is_empty());
    }

    async fn futures_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = tokio::task::yield_now() => None,
        }
    }
}
