use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use zookeeper_client as zk;

/// A watch on a hold's node, set by the hold's first renewal. Later renewals read the node only after
/// a change or a reconnect.
///
/// Servers send a change's event before the answers that follow the change.
#[derive(Default)]
pub(crate) struct HoldWatch(Mutex<Option<Set>>);

struct Set {
    reconnects: u64,
    changed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HoldWatch {
    /// Replaces the watch. `reconnects` is the session's count before the node was read.
    pub(crate) fn set(&self, reconnects: u64, watcher: zk::OneshotWatcher) {
        let changed = Box::pin(async move { drop(watcher.changed().await) });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Set { reconnects, changed });
    }

    /// Returns whether the node is as it was when read.
    pub(crate) fn is_unchanged(&self, reconnects: u64) -> bool {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = |set: &mut Set| {
            let changed = set.changed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            set.reconnects == reconnects && changed == Poll::Pending
        };
        if set.as_mut().is_some_and(is_quiet) {
            return true;
        }
        *set = None;
        false
    }
}

impl fmt::Debug for HoldWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldWatch").finish_non_exhaustive()
    }
}
