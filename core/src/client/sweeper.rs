//! The task that clears away what holds left behind, for clients that were asked to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::error::ErrorKind;

use super::answer::{answer, say};
use super::shared::Shared;

/// How long it rests when there was nothing more, and between two steps when there was.
const REST: Duration = Duration::from_secs(60);
const BREATH: Duration = Duration::from_millis(200);

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sweeps now and then what has been over for `idle`. Ends with the client, and where there is
/// nothing to sweep.
pub(crate) fn sweeper(
    shared: &Arc<Shared>,
    idle: Duration,
) -> impl Future<Output = ()> + Send + 'static {
    let weak = Arc::downgrade(shared);
    let (clock, jitter) = (shared.clock.clone(), shared.settings.jitter.clone());
    async move {
        let mut pause = REST;
        loop {
            clock.sleep(jitter.spread(pause)).await;
            pause = match step(&weak, idle).await {
                Some(true) => BREATH,
                Some(false) => REST,
                None => return,
            };
        }
    }
}

/// One step: whether there is more to do. `None` when there never will be.
async fn step(shared: &Weak<Shared>, idle: Duration) -> Option<bool> {
    let shared = shared.upgrade().filter(|shared| !shared.is_closed())?;
    let send = || shared.backend.sweep(idle);
    match answer(&shared.clock, send, shared.clock.now() + PATIENCE, "the sweep").await {
        Ok(swept) => {
            say(|| tracing::debug!(rows = swept.rows, "swept"));
            Some(swept.more)
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => {
            say(|| tracing::warn!(%error, "a sweep failed"));
            Some(false)
        }
    }
}
