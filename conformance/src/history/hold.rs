use lockwright_core::{BootInstant, Fence, Mode, Token};

/// A holder's view of its hold, valid from [`granted`](Self::granted) (inclusive) to
/// [`until`](Self::until) (exclusive).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The holder: a task, a client or a process.
    pub who: String,
    /// The lock's name.
    pub name: String,
    /// The hold's mode.
    pub mode: Mode,
    /// The hold's token.
    pub token: Token,
    /// The hold's fence.
    pub fence: Fence,
    /// The time just before the request was sent. All holders of a handed-over hold have the first
    /// one's.
    pub asked: BootInstant,
    /// The time just after the grant returned.
    pub granted: BootInstant,
    /// The earliest of the release's start, the loss report, and the last recorded deadline.
    pub until: BootInstant,
}

impl Hold {
    /// Returns whether both holds have the same token, fence, holder and request time.
    pub fn is_one_with(&self, other: &Self) -> bool {
        (self.token, self.fence, self.asked) == (other.token, other.fence, other.asked)
            && self.who == other.who
    }

    /// Returns whether the holds' modes exclude each other. Two readers don't, nor do permits of
    /// any sizes.
    pub fn excludes(&self, other: &Self) -> bool {
        excludes(self.mode, other.mode)
    }

    /// Returns whether a request in `mode` may have to wait for this hold.
    pub fn competes_with(&self, mode: Mode) -> bool {
        excludes(self.mode, mode) || self.permits().is_some()
    }

    /// Returns the number of held permits, and the semaphore's size.
    pub fn permits(&self) -> Option<(u32, u32)> {
        match self.mode {
            Mode::Permits { count, of } => Some((count, of)),
            _ => None,
        }
    }

    /// Returns whether the hold is valid at `instant`.
    pub fn is_valid_at(&self, instant: BootInstant) -> bool {
        self.granted <= instant && instant < self.until
    }
}

fn excludes(one: Mode, other: Mode) -> bool {
    let permits = |mode| matches!(mode, Mode::Permits { .. });
    !((one, other) == (Mode::Shared, Mode::Shared) || permits(one) && permits(other))
}

pub(crate) fn seconds(zero: BootInstant, instant: BootInstant) -> f64 {
    instant.saturating_since(zero).as_secs_f64() - zero.saturating_since(instant).as_secs_f64()
}
