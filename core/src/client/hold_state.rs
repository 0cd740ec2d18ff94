//! The states of a hold.

use crate::reason::Reason;

/// The state of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Held, and confirmed recently.
    Held,
    /// Held, but half of the validity has passed without a confirmation. Don't start long work.
    AtRisk,
    /// Released by its holder.
    Released,
    /// Lost.
    Lost(Reason),
}

impl HoldState {
    /// Returns whether the lock is held.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::AtRisk)
    }
}
