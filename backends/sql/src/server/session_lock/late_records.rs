//! The records of holds that lasted for [`RECORD_AFTER`](super::RECORD_AFTER). One task serves all
//! holds, so not every hold wakes the runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use lockwright_core::{Claim, Fence};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::{Server, SessionId, Sessions};

pub(super) struct Unrecorded {
    pub(super) claim: Claim,
    pub(super) session: SessionId,
    pub(super) fence: Fence,
    /// Can't be upgraded once the hold has ended.
    pub(super) is_recorded: Weak<AtomicBool>,
}

/// Records each hold at its `Instant`, unless it has ended. The holds arrive in this order.
pub(super) async fn record_late<S: Server>(
    server: Arc<Sessions<S>>,
    mut holds: UnboundedReceiver<(Instant, Unrecorded)>,
) {
    while let Some((at, hold)) = holds.recv().await {
        if hold.is_recorded.strong_count() > 0 {
            sleep_until(at).await;
            hold.record(&server);
        }
    }
}

impl Unrecorded {
    /// Records the hold in a separate task, so a release doesn't wait. A late record doesn't
    /// overwrite a later hold's record.
    pub(super) fn record<S: Server>(self, server: &Arc<Sessions<S>>) {
        if self.is_recorded.upgrade().is_none_or(|flag| flag.load(Ordering::Relaxed)) {
            return;
        }
        let server = Arc::clone(server);
        tokio::spawn(async move {
            let Self { claim, session, fence, is_recorded } = self;
            match server.note(&claim, session, Some(fence)).await {
                Ok(_) => {
                    if let Some(is_recorded) = is_recorded.upgrade() {
                        is_recorded.store(true, Ordering::Relaxed);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, name = %claim.name, "a hold couldn't be recorded");
                }
            }
        });
    }
}
