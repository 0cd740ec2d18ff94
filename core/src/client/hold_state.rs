use crate::Reason;

/// The state of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Held, and confirmed recently.
    Held,
    /// Held, but half the validity has passed without a renewal, or the backend reports a risk.
    /// Don't start long work.
    AtRisk,
    /// Released by its holder.
    Released,
    /// Lost, for this reason.
    Lost(Reason),
}

impl HoldState {
    pub(crate) const fn severity(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::AtRisk => 1,
            Self::Released => 2,
            Self::Lost(_) => 3,
        }
    }

    /// Returns whether the lock is still held.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Held | Self::AtRisk)
    }
}
