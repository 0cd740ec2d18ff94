//! How other tasks learn what becomes of a hold.

use std::pin::pin;
use std::sync::Arc;

use crate::clock::BootInstant;
use crate::event::Reason;

use super::hold::Hold;

/// What a hold is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Held, and confirmed not long ago.
    Held,
    /// Held, but a renewal is overdue: half of the validity has passed without a confirmation.
    /// Don't begin what takes long. It may become [`HoldState::Held`] again.
    AtRisk,
    /// Released by its holder.
    Released,
    /// Lost. It stays so.
    Lost(Reason),
}

impl HoldState {
    /// Whether it is held.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::AtRisk)
    }
}

/// A view of a hold for other tasks: cloneable, `'static`, and it keeps nothing held. Get one from
/// [`Guard::signal`](crate::Guard::signal).
#[derive(Debug, Clone)]
pub struct Signal {
    hold: Arc<Hold>,
    seen: u32,
}

impl Signal {
    pub(crate) fn new(hold: &Arc<Hold>) -> Self {
        // So that a signal that asks for changes later has missed none.
        let _ = hold.changed();
        Self { seen: hold.version(), hold: Arc::clone(hold) }
    }

    /// What the hold is in now. Compares the clock itself, so it is exact also when nothing has
    /// noticed yet.
    pub fn state(&self) -> HoldState {
        self.hold.state()
    }

    /// The instant at which the hold is given up for lost, unless it is renewed before.
    pub fn lost_at(&self) -> BootInstant {
        self.hold.lost_at()
    }

    /// The instant from which on nobody may believe in the hold, unless it is renewed before.
    pub fn deadline(&self) -> BootInstant {
        self.hold.deadline()
    }

    /// Waits until the hold is released or lost, and says which.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time; nothing is missed.
    pub async fn ended(&self) -> HoldState {
        loop {
            let mut changed = pin!(self.hold.changed().notified());
            changed.as_mut().enable();
            let state = self.hold.state();
            if !state.is_live() {
                return state;
            }
            // A timer of its own, so that the loss is seen on time even when the keeper is late.
            let lost_at = self.hold.lost_at();
            tokio::select! {
                () = changed => {}
                () = self.hold.shared.inside(self.hold.clock().sleep_until(lost_at)) => {}
            }
        }
    }

    /// Waits until something has changed since the last call: a renewal, a risk, the end. Several
    /// changes since then are one. Answers the state after it; an ended hold answers at once.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time; nothing is missed.
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
