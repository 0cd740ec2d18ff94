//! Waiting claims and their wake-ups.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::claim::Granted;
use crate::name::{LockName, NameMap};
use crate::token::Token;

#[derive(Default)]
pub(crate) struct Parking(Mutex<Lots>);

#[derive(Default)]
struct Lots {
    by_name: NameMap<Vec<Arc<Parked>>>,
    by_token: HashMap<Token, Arc<Parked>>,
}

#[derive(Default)]
pub(crate) struct Parked {
    wake: Notify,
    handed: Mutex<Option<Granted>>,
}

impl Parked {
    /// Waits for a wake-up or a hand-over, including earlier ones.
    ///
    /// # Cancel safety
    /// May be dropped; a received wake-up is lost then.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn take_handed(&self) -> Option<Granted> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Parking {
    fn lots(&self) -> MutexGuard<'_, Lots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a claim for wake-ups and a hand-over, until the result is dropped.
    pub(crate) fn park<'a>(&'a self, name: &LockName, token: Token) -> Spot<'a> {
        let parked = Arc::new(Parked::default());
        let mut lots = self.lots();
        lots.by_name.entry(name.clone()).or_default().push(Arc::clone(&parked));
        lots.by_token.insert(token, Arc::clone(&parked));
        Spot { parking: self, parked, name: name.clone(), token }
    }

    pub(crate) fn wake(&self, name: &LockName) {
        for parked in self.lots().by_name.get(name).into_iter().flatten() {
            parked.wake.notify_one();
        }
    }

    /// Hands a grant to its waiting claim. A claim that no longer waits has a release in progress, which covers the
    /// grant.
    pub(crate) fn hand(&self, token: Token, granted: Granted) {
        if let Some(parked) = self.lots().by_token.get(&token) {
            *parked.handed.lock().unwrap_or_else(PoisonError::into_inner) = Some(granted);
            parked.wake.notify_one();
        }
    }
}

pub(crate) struct Spot<'a> {
    parking: &'a Parking,
    parked: Arc<Parked>,
    name: LockName,
    token: Token,
}

impl std::ops::Deref for Spot<'_> {
    type Target = Parked;

    fn deref(&self) -> &Parked {
        &self.parked
    }
}

impl Drop for Spot<'_> {
    fn drop(&mut self) {
        let mut lots = self.parking.lots();
        lots.by_token.remove(&self.token);
        if let Some(waiting) = lots.by_name.get_mut(&self.name) {
            waiting.retain(|parked| !Arc::ptr_eq(parked, &self.parked));
            if waiting.is_empty() {
                lots.by_name.remove(&self.name);
            }
        }
    }
}
