use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{LockName, Result};
use tokio::task::AbortHandle;

use crate::errors::Effect;
use crate::hold_watch;
use crate::session::Session;
use crate::shared::Shared;

/// A waiter's polling interval without a watch.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// A waiter's polling interval with a watch: long, because the watch wakes the waiter.
pub(crate) const SLOW_POLL: Duration = Duration::from_secs(10);

type Key = (i64, String);

#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<HashMap<Key, AbortHandle>>);

impl Watches {
    pub(crate) fn close(&self) {
        for (_, task) in self.all().drain() {
            task.abort();
        }
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, HashMap<Key, AbortHandle>> {
        lock(&self.0)
    }
}

/// If there is no watch, returns the time until the caller must retry: zero if the node doesn't
/// exist, `POLL` if the session has no room for a watch.
pub(crate) async fn watch(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    path: String,
    name: &LockName,
) -> Result<Option<Duration>> {
    let key = (session.id(), path);
    if shared.watches.all().contains_key(&key) {
        return Ok(None);
    }
    let bytes = shared.full_length(&key.1);
    let Some(reserved) = hold_watch::reserve(&session.watch_bytes_left, bytes) else {
        let stat = session.answer(session.client.check_stat(&key.1)).await;
        let stat = stat.map_err(|failure| failure.error(Effect::Reads))?;
        return Ok(Some(stat.map_or(Duration::ZERO, |_| POLL)));
    };
    let asking = session.client.check_and_watch_stat(&key.1);
    let (stat, watcher) =
        session.answer(asking).await.map_err(|failure| failure.error(Effect::Reads))?;
    if stat.is_none() {
        return Ok(Some(Duration::ZERO));
    }
    let (owner, watched, waited_for) = (Arc::downgrade(shared), key.clone(), name.clone());
    let mut all = shared.watches.all();
    let task = shared.sessions.runtime.spawn(async move {
        watcher.changed().await;
        drop(reserved);
        if let Some(owner) = owner.upgrade() {
            owner.watches.all().remove(&watched);
            owner.subscribers.wake(&waited_for);
        }
    });
    if let Some(other) = all.insert(key, task.abort_handle()) {
        other.abort();
    }
    Ok(None)
}
