//! Notifications of other tasks about a hold.

use std::pin::pin;
use std::sync::Arc;

use crate::clock::BootInstant;

use super::hold_state::HoldState;
use super::state::Hold;

/// A view of a hold for other tasks, from [`Guard::signal`](crate::Guard::signal). It doesn't keep the lock held.
#[derive(Debug, Clone)]
pub struct Signal {
    hold: Arc<Hold>,
    seen: u32,
}

impl Signal {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        // Enables notifications, so that a later call misses no change.
        let _ = hold.changed();
        Self { seen: hold.version(), hold: Arc::clone(hold) }
    }

    /// Returns the present state. It checks the clock, so it is exact even before a loss has been reported.
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// Returns the instant at which the hold counts as lost, unless it is renewed before.
    pub fn lost_at(&self) -> BootInstant {
        self.hold.lost_at()
    }

    /// Returns the instant from which the hold must not be relied on, unless it is renewed before.
    pub fn deadline(&self) -> BootInstant {
        self.hold.deadline()
    }

    /// Waits until the hold is released or lost, and returns that state.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time; no change is missed.
    pub async fn ended(&self) -> HoldState {
        loop {
            let mut changed = pin!(self.hold.changed().notified());
            changed.as_mut().enable();
            let state = self.hold.state();
            if !state.is_live() {
                return state;
            }
            // This timer detects the loss on time even if the renewal task is late.
            let lost_at = self.hold.lost_at();
            tokio::select! {
                () = changed => {}
                () = self.hold.shared.inside(self.hold.clock().sleep_until(lost_at)) => {}
            }
        }
    }

    /// Waits for a change since the last call (a renewal, a risk, the end), and returns the state. Several
    /// changes count as one. After the hold's end it returns at once.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time; no change is missed.
    pub async fn changed(&mut self) -> HoldState {
        loop {
            let mut changed = pin!(self.hold.changed().notified());
            changed.as_mut().enable();
            let state = self.hold.state();
            let version = self.hold.version();
            if version != self.seen || !state.is_live() {
                self.seen = version;
                return state;
            }
            let lost_at = self.hold.lost_at();
            tokio::select! {
                () = changed => {}
                () = self.hold.shared.inside(self.hold.clock().sleep_until(lost_at)) => {}
            }
        }
    }
}
