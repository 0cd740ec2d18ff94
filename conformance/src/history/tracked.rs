//! The checker's state of a hold.

use lockwright_core::{BootInstant, Reason};

use super::hold::Hold;

/// A hold, or its continuation by a renewal after its deadline.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) hold: Hold,
    pub(super) owner: Option<u64>,
    pub(crate) deadline: BootInstant,
    pub(crate) end: Option<End>,
    pub(crate) over: Option<BootInstant>,
    /// When an operator freed it on the server.
    pub(crate) broken: Option<BootInstant>,
    /// True if another `Tracked` continues this one.
    pub(crate) is_continued: bool,
    /// True if this one continues another.
    pub(crate) is_part: bool,
    /// The grant or the register's last answer, before the next check.
    pub(super) looked: BootInstant,
    /// An unanswered write, and the check before it.
    pub(super) writing: Option<(BootInstant, BootInstant)>,
}

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
            owner: None,
            looked: hold.granted,
            hold,
            end: None,
            over: None,
            broken: None,
            is_continued: false,
            is_part: false,
            writing: None,
        }
    }

    /// The hold until a break, for the overlap check.
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
            self.over = Some(at);
        }
    }
}
