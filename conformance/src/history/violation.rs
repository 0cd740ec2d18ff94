use std::fmt;
use std::time::Duration;

use lockwright_core::{BootInstant, Fence};
use serde::{Deserialize, Serialize};

use super::hold::{Hold, seconds};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Violation {
    /// Two conflicting holds were valid at once.
    Overlap(Box<Hold>, Box<Hold>),
    /// More permits were valid than the semaphore has.
    TooManyPermits(Vec<Hold>),
    /// Two holds had the same fence.
    SameFence(Box<Hold>, Box<Hold>),
    /// The second hold has the smaller fence, but was requested after the first hold's grant, or
    /// granted after the first hold's end.
    FenceFell(Box<Hold>, Box<Hold>),
    /// A holder treated its hold as valid after the hold's end.
    UsedAfterItsEnd(Box<Used>),
    /// A process reported the loss of its hold after the next grant had returned, or never.
    LateLoss(Box<LateLoss>),
    /// The register accepted a lower fence after a higher one.
    StaleWrite(Box<Write>, Box<Write>),
    /// The register refused a valid exclusive hold's write, although there was no later grant.
    RefusedWrite(Box<Hold>, Box<Write>),
    /// A request never ended, although its process ran.
    Stuck {
        /// The process's name.
        who: String,
        /// The lock's name.
        name: String,
        /// The request's time.
        asked: BootInstant,
    },
    /// A client waited too long for a lock without a holder.
    NoHolder {
        /// The lock's name.
        name: String,
        /// The start of the wait.
        from: BootInstant,
        /// The end of the wait.
        to: BootInstant,
        /// The allowed time.
        limit: Duration,
    },
    /// The run lacks required evidence.
    ShowedNothing(Missing),
    /// Entries of the journal contradict each other.
    BadJournal {
        /// The process's name.
        who: String,
        /// The entry's time.
        at: BootInstant,
        /// The contradiction.
        problem: String,
    },
}

/// A use of a hold after its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The hold as recorded before the use.
    pub hold: Hold,
    /// The time of the use.
    pub at: BootInstant,
    /// The kind of use.
    pub by: Use,
    /// A conflicting hold granted before the use.
    pub next: Option<Hold>,
}

/// A late or missing report of a loss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateLoss {
    /// The lost hold.
    pub hold: Hold,
    /// The time of the report or of the release, if any.
    pub reported: Option<BootInstant>,
    /// The next hold, if it was granted before the report.
    pub next: Option<Hold>,
}

/// How a hold was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// `check()` found the hold valid.
    Checked,
    /// A renewal.
    Renewed,
}

/// A write that the register answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The writer's process.
    pub who: String,
    /// The lock's name.
    pub name: String,
    /// The writer's fence.
    pub fence: Fence,
    /// The earliest possible time of sending.
    pub sent: BootInstant,
    /// The answer's time.
    pub answered: BootInstant,
    /// True if the register accepted the write.
    pub accepted: bool,
    /// True if the writer had noticed its hold's end.
    pub late: bool,
}

/// Evidence that a run lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// No process requested a lock that another process held.
    Contention,
    /// No waiter was granted a lock after another process's hold.
    HandOvers,
    /// A fault had no effect.
    Effect {
        /// The fault's name.
        fault: String,
        /// The fault's target.
        target: String,
    },
    /// The register refused no write of a process after its pause beyond the hold's deadline.
    LateWrite {
        /// The process's name.
        process: String,
    },
}

/// A violation's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A violation about holds, fences or the register.
    Safety,
    /// A stuck request, or a lock without a holder.
    Liveness,
    /// Missing evidence, or a wrong journal.
    Evidence,
}

impl Violation {
    /// Returns the violation's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Stuck { .. } | Self::NoHolder { .. } => Kind::Liveness,
            Self::ShowedNothing(_) | Self::BadJournal { .. } => Kind::Evidence,
            _ => Kind::Safety,
        }
    }

    /// Returns a short description.
    pub fn title(&self) -> String {
        match self {
            Self::Overlap(..) => "two holds were valid at once".to_owned(),
            Self::TooManyPermits(holds) => {
                let of = holds.iter().find_map(Hold::permits).map_or(0, |(_, of)| of);
                format!("more than {of} permits were valid at once")
            }
            Self::SameFence(..) => "two holds had one fence".to_owned(),
            Self::FenceFell(..) => "a later hold had a smaller fence".to_owned(),
            Self::UsedAfterItsEnd(used) => match used.by {
                Use::Checked => "a hold was used after its end".to_owned(),
                Use::Renewed => {
                    "a hold was renewed after its deadline and the next grant".to_owned()
                }
            },
            Self::LateLoss(late) => match late.next {
                Some(_) => "a loss was reported after the next grant".to_owned(),
                None => "a loss was never reported".to_owned(),
            },
            Self::StaleWrite(..) => "the register accepted a stale write".to_owned(),
            Self::RefusedWrite(..) => "the register refused the write of a valid hold".to_owned(),
            Self::Stuck { .. } => "a request never ended".to_owned(),
            Self::NoHolder { .. } => "a client waited for too long without a holder".to_owned(),
            Self::ShowedNothing(_) => "the run showed nothing".to_owned(),
            Self::BadJournal { .. } => "the journal is wrong".to_owned(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zero = match self {
            Self::Overlap(first, _) | Self::SameFence(first, _) | Self::FenceFell(first, _) => {
                first.granted
            }
            Self::TooManyPermits(holds) if !holds.is_empty() => holds[0].granted,
            Self::UsedAfterItsEnd(used) => used.hold.granted,
            Self::LateLoss(late) => late.hold.granted,
            Self::StaleWrite(first, _) => first.answered,
            Self::RefusedWrite(hold, _) => hold.granted,
            Self::Stuck { asked: at, .. } | Self::NoHolder { from: at, .. } => *at,
            _ => BootInstant::from_nanos(0),
        };
        Described { violation: self, zero }.fmt(f)
    }
}

pub(crate) struct Described<'a> {
    pub(crate) violation: &'a Violation,
    pub(crate) zero: BootInstant,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.violation.title())?;
        let since = |instant: BootInstant| seconds(self.zero, instant);
        match self.violation {
            Violation::Overlap(a, b) | Violation::SameFence(a, b) | Violation::FenceFell(a, b) => {
                self.holds(f, &[a, b])
            }
            Violation::TooManyPermits(holds) => self.holds(f, &holds.iter().collect::<Vec<_>>()),
            Violation::UsedAfterItsEnd(used) => self.used(f, used),
            Violation::LateLoss(late) => self.late(f, late),
            Violation::StaleWrite(first, stale) => write!(
                f,
                "{} wrote {:?} with fence {} at {:.6} s, and {} with fence {} after {:.6} s",
                first.who,
                first.name,
                first.fence,
                since(first.answered),
                stale.who,
                stale.fence,
                since(stale.sent)
            ),
            Violation::RefusedWrite(hold, write) => {
                self.holds(f, &[hold])?;
                write!(f, "; answered at {:.6} s", since(write.answered))
            }
            Violation::Stuck { who, name, asked } => {
                write!(f, "{who} asked for {name:?} at {:.6} s", since(*asked))
            }
            Violation::NoHolder { name, from, to, limit } => {
                let waited = to.saturating_since(*from);
                let since = since(*from);
                write!(f, "{name:?} from {since:.6} s, for {waited:?}; {limit:?} is allowed")
            }
            Violation::ShowedNothing(missing) => missing.fmt(f),
            Violation::BadJournal { who, problem, .. } => write!(f, "{who} {problem}"),
        }
    }
}

impl Described<'_> {
    fn holds(&self, f: &mut fmt::Formatter<'_>, holds: &[&Hold]) -> fmt::Result {
        for (number, hold) in holds.iter().enumerate() {
            match number {
                0 => write!(f, "{:?}, ", hold.name)?,
                _ => f.write_str(" and ")?,
            }
            hold.describe(f, self.zero)?;
        }
        Ok(())
    }

    fn late(&self, f: &mut fmt::Formatter<'_>, late: &LateLoss) -> fmt::Result {
        write!(f, "{:?}, ", late.hold.name)?;
        late.hold.describe(f, self.zero)?;
        if let Some(next) = &late.next {
            f.write_str("; the next grant was to ")?;
            next.describe(f, self.zero)?;
        }
        match late.reported {
            Some(at) => write!(f, "; reported at {:.6} s", seconds(self.zero, at)),
            None => f.write_str("; not reported"),
        }
    }

    fn used(&self, f: &mut fmt::Formatter<'_>, used: &Used) -> fmt::Result {
        let at = seconds(self.zero, used.at);
        write!(f, "{:?} at {at:.6} s by ", used.hold.name)?;
        used.hold.describe(f, self.zero)?;
        if let Some(next) = &used.next {
            f.write_str("; before that it was granted to ")?;
            next.describe(f, self.zero)?;
        }
        Ok(())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contention => f.write_str("no client asked for a lock that another process held"),
            Self::HandOvers => {
                f.write_str("no waiter was granted a lock after another process's hold")
            }
            Self::Effect { fault, target } => {
                write!(f, "the fault {fault} on {target} began, and no effect was recorded")
            }
            Self::LateWrite { process } => {
                write!(
                    f,
                    "{process} was paused beyond its deadline, and no write after it was refused"
                )
            }
        }
    }
}
