//! A hold while the journal is read.

use lockwright_core::{BootInstant, Reason};

use super::hold::Hold;

/// A hold, or the part of it from a renewal that came after its deadline.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) hold: Hold,
    /// The last recorded deadline.
    pub(crate) deadline: BootInstant,
    pub(crate) end: Option<End>,
    /// When an operator freed it on the server.
    pub(crate) broken: Option<BootInstant>,
    /// True if a later part continues it, by a renewal after its deadline.
    pub(crate) is_continued: bool,
    /// True if it is such a part.
    pub(crate) is_part: bool,
    /// The grant, or the last answer of the register: the holder checked the hold later than this.
    pub(super) looked: BootInstant,
    /// When its holder began to write, since the register answered last.
    pub(super) writing: Option<BootInstant>,
}

/// The recorded end of a hold. Without one it ends at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Releasing,
    Lost(BootInstant, Reason),
    ProcessEnded,
}

impl Tracked {
    pub(super) fn granted(hold: Hold) -> Self {
        Self {
            deadline: hold.until,
            looked: hold.granted,
            hold,
            end: None,
            broken: None,
            is_continued: false,
            is_part: false,
            writing: None,
        }
    }

    /// Returns the hold as the overlap check sees it: a hold that an operator freed excludes nobody.
    pub(crate) fn exclusive_part(&self) -> Hold {
        let mut hold = self.hold.clone();
        if let Some(broken) = self.broken {
            hold.until = hold.until.min(broken).max(hold.granted);
        }
        hold
    }

    pub(super) fn finish(&mut self, at: BootInstant, end: End) {
        if self.end.is_none() {
            self.hold.until = self.deadline.min(at);
            self.end = Some(end);
        }
    }
}
