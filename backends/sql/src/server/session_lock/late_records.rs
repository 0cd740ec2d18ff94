//! The records of holds that lasted for [`RECORD_AFTER`]. One task serves all holds of a client,
//! because a timer for each hold would wake the runtime once more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use lockwright_core::backend_util::lock;
use lockwright_core::{Claim, Fence};
use tokio::time::{Instant, sleep_until};

use super::{EngineState, RECORD_AFTER, Server, SessionId};

pub(super) struct Unrecorded {
    pub(super) claim: Claim,
    pub(super) session: SessionId,
    pub(super) fence: Fence,
    /// Gone once the hold has ended.
    pub(super) is_recorded: Weak<AtomicBool>,
}

#[derive(Default)]
pub(super) struct LateRecords(Mutex<State>);

#[derive(Default)]
struct State {
    /// The holds with the time to record them, ordered by this time.
    waiting: VecDeque<(Instant, Unrecorded)>,
    has_task: bool,
}

impl LateRecords {
    /// Returns the next time at which a hold must be recorded, or `None` if the task can end.
    fn next(&self) -> Option<Instant> {
        let mut state = lock(&self.0);
        while state.waiting.pop_front_if(|(_, hold)| hold.is_recorded.strong_count() == 0).is_some()
        {
        }
        let next = state.waiting.front().map(|(at, _)| *at);
        state.has_task = next.is_some();
        next
    }

    fn due(&self) -> Option<Unrecorded> {
        let now = Instant::now();
        lock(&self.0).waiting.pop_front_if(|(at, _)| *at <= now).map(|(_, hold)| hold)
    }
}

impl<S: Server> EngineState<S> {
    /// Records the hold after [`RECORD_AFTER`], unless it has ended by then.
    pub(super) fn record_later(self: &Arc<Self>, hold: Unrecorded) {
        let mut late = lock(&self.late_records.0);
        late.waiting.push_back((Instant::now() + RECORD_AFTER, hold));
        if std::mem::replace(&mut late.has_task, true) {
            return;
        }
        let state = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(at) = state.upgrade().and_then(|state| state.late_records.next()) {
                sleep_until(at).await;
                let Some(state) = state.upgrade() else { return };
                while let Some(hold) = state.late_records.due() {
                    state.record(hold);
                }
            }
        });
    }

    /// Records the hold in a separate task, so a release doesn't wait. A late record doesn't
    /// overwrite a later hold's.
    pub(super) fn record(self: &Arc<Self>, hold: Unrecorded) {
        if hold.is_recorded.upgrade().is_none_or(|flag| flag.load(Ordering::Relaxed)) {
            return;
        }
        let state = Arc::clone(self);
        tokio::spawn(async move {
            let Unrecorded { claim, session, fence, is_recorded } = hold;
            match state.server.note(&claim, session, Some(fence)).await {
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
