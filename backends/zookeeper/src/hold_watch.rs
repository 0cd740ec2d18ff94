use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use lockwright_core::backend_util::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zookeeper_client as zk;

/// The limit for a session's watched paths, in bytes. A reconnect sends them all, and fails above
/// 128 KiB.
pub(crate) const MOST_BYTES: usize = 112 * 1024;

const BYTES_FOR_WAITERS: usize = 16 * 1024;

/// A watch on a hold's node, set when a renewal reads the node. Later ones read it only after a
/// change or a reconnect.
///
/// A server sends a change's event before its responses to later requests. So if no event came
/// before a proof that the session lives, the node is unchanged. After a reconnect, the client
/// library sets the watches again. As a precaution, the next renewal still reads the node.
#[derive(Default)]
pub(crate) struct HoldWatch(Mutex<State>);

#[derive(Default)]
struct State {
    active: Option<ActiveWatch>,
    /// A permit for each byte of the path. Last, to be dropped after the watch.
    reserved: Option<OwnedSemaphorePermit>,
}

struct ActiveWatch {
    reconnect_count: u64,
    changed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

pub(crate) fn reserve(bytes_left: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    Arc::clone(bytes_left).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
}

impl HoldWatch {
    /// Reserves the path's bytes for a watch. Returns whether the session had enough left.
    pub(crate) fn reserve(&self, bytes_left: &Arc<Semaphore>, bytes: usize) -> bool {
        let mut state = lock(&self.0);
        if state.reserved.is_none() && bytes_left.available_permits() >= bytes + BYTES_FOR_WAITERS {
            state.reserved = reserve(bytes_left, bytes);
        }
        state.reserved.is_some()
    }

    /// Replaces the watch. `reconnect_count` must be read before the node.
    pub(crate) fn replace(&self, reconnect_count: u64, watcher: zk::OneshotWatcher) {
        let changed = Box::pin(async move { drop(watcher.changed().await) });
        lock(&self.0).active = Some(ActiveWatch { reconnect_count, changed });
    }

    /// Returns whether the node was unchanged at the session's last proof.
    pub(crate) fn is_unchanged(&self, reconnect_count: u64) -> bool {
        let mut state = lock(&self.0);
        let Some(mut watch) = state.active.take() else { return false };
        let mut context = Context::from_waker(Waker::noop());
        if watch.changed.as_mut().poll(&mut context).is_ready() {
            return false;
        }
        let is_current = watch.reconnect_count == reconnect_count;
        // Dropping an outdated watch costs a request, so the next read replaces it.
        state.active = Some(watch);
        is_current
    }
}

impl fmt::Debug for HoldWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldWatch").finish_non_exhaustive()
    }
}
