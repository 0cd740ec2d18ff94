use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use tokio::task::AbortHandle;

/// The polling interval of a waiter. It is long, because a watch wakes the waiter.
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
