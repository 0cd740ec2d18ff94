use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::ErrorKind;

use super::{Shared, answer, ignore_panic};

const IDLE_PAUSE: Duration = Duration::from_secs(60);
const BATCH_PAUSE: Duration = Duration::from_millis(200);

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the sweep task. It ends when the client is closed or dropped, or if the backend doesn't
/// support sweeps.
pub(crate) fn sweeper(
    shared: &Arc<Shared>,
    idle: Duration,
) -> impl Future<Output = ()> + Send + 'static {
    let weak = Arc::downgrade(shared);
    let (clock, jitter) = (shared.clock.clone(), shared.settings.jitter.clone());
    async move {
        let mut pause = IDLE_PAUSE;
        loop {
            clock.sleep(jitter.spread(pause)).await;
            pause = match step(&weak, idle).await {
                Some(true) => BATCH_PAUSE,
                Some(false) => IDLE_PAUSE,
                None => return,
            };
        }
    }
}

/// Sweeps once. Returns whether more remains; `None` ends the task.
async fn step(shared: &Weak<Shared>, idle: Duration) -> Option<bool> {
    let shared = shared.upgrade().filter(|shared| !shared.is_closed())?;
    let send = || shared.backend.sweep(idle);
    match answer(&shared, send, shared.clock.now() + PATIENCE, "the sweep").await {
        Ok(swept) => {
            ignore_panic(|| tracing::debug!(rows = swept.rows, "swept"));
            Some(swept.more)
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) => {
            ignore_panic(|| tracing::warn!(%error, "a sweep failed"));
            Some(false)
        }
    }
}
