use lockwright_core::{BootInstant, Reason};

use super::hold::Hold;

/// The checker's state of a hold. A renewal after the deadline begins another `Tracked`.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) hold: Hold,
    pub(super) owner: Option<u64>,
    pub(crate) deadline: BootInstant,
    pub(crate) end: Option<End>,
    pub(crate) over: Option<BootInstant>,
    pub(crate) broken: Option<BootInstant>,
    pub(crate) is_continued: bool,
    pub(crate) is_part: bool,
    /// The earliest possible time of the holder's next check: the grant, or the register's last
    /// answer.
    pub(super) looked: BootInstant,
    /// The times of an unanswered write, and of the check before it.
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
