use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::backend_util::{RecentNames, lock};
use crate::{Granted, LockName, NameMap, Token};

use super::ignore_panic;

#[derive(Default)]
pub(crate) struct Waiters {
    registered: Mutex<Registered>,
    pub(crate) recently_busy: RecentNames,
}

#[derive(Default)]
struct Registered {
    by_name: NameMap<Vec<Arc<Waiter>>>,
    by_token: HashMap<Token, Arc<Waiter>>,
}

#[derive(Default)]
pub(crate) struct Waiter {
    wake: Notify,
    handed: Mutex<Option<Granted>>,
}

impl Waiter {
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn take_handed(&self) -> Option<Granted> {
        lock(&self.handed).take()
    }
}

impl Waiters {
    pub(crate) fn register<'a>(&'a self, name: &LockName, token: Token) -> WaiterSlot<'a> {
        let waiter = Arc::new(Waiter::default());
        let mut registered = lock(&self.registered);
        registered.by_name.entry(name.clone()).or_default().push(Arc::clone(&waiter));
        registered.by_token.insert(token, Arc::clone(&waiter));
        WaiterSlot { waiters: self, waiter, name: name.clone(), token }
    }

    pub(crate) fn wake(&self, name: &LockName) {
        // Wakers must not run under the mutex: they may drop a waiting request, which locks it.
        let waiters = lock(&self.registered).by_name.get(name).cloned();
        for waiter in waiters.into_iter().flatten() {
            ignore_panic(|| waiter.wake.notify_one());
        }
    }

    /// Passes a grant to its waiter. Without one, the client is already releasing the claim, which
    /// ends the hold.
    pub(crate) fn hand(&self, token: Token, granted: Granted) {
        let waiter = lock(&self.registered).by_token.get(&token).cloned();
        if let Some(waiter) = waiter {
            *lock(&waiter.handed) = Some(granted);
            ignore_panic(|| waiter.wake.notify_one());
        }
    }
}

pub(crate) struct WaiterSlot<'a> {
    waiters: &'a Waiters,
    pub(crate) waiter: Arc<Waiter>,
    name: LockName,
    token: Token,
}

impl Drop for WaiterSlot<'_> {
    fn drop(&mut self) {
        let mut registered = lock(&self.waiters.registered);
        registered.by_token.remove(&self.token);
        if let Some(waiting) = registered.by_name.get_mut(&self.name) {
            waiting.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            if waiting.is_empty() {
                registered.by_name.remove(&self.name);
            }
        }
    }
}
