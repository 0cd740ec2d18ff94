use std::fmt;

use lockwright_core::{BootInstant, Fence};

use super::hold::{Hold, seconds};

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The violating holds.
    pub holds: Vec<Hold>,
    title: String,
    between: &'static str,
    note: String,
    pub(super) zero: BootInstant,
    /// The affected processes; if empty, all.
    pub(super) who: Vec<String>,
    pub(super) time: Option<(BootInstant, BootInstant)>,
}

/// A rule that a run can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Two conflicting holds were valid at once.
    Overlap,
    /// More permits were valid at once than the requests' sizes allow.
    TooManyPermits,
    /// Two holds had the same fence.
    SameFence,
    /// A hold has a smaller fence than another, although requested after the other's grant, or
    /// granted after its end.
    FenceFell,
    /// A check succeeded after the hold's end, or a renewal after the deadline and a conflicting
    /// grant.
    UsedAfterItsEnd,
    /// A process reported the loss of its hold only after the next conflicting grant, or never.
    LateLoss,
    /// The register accepted a lower fence after a higher one.
    StaleWrite,
    /// The register refused a valid exclusive hold's write, without a later grant.
    RefusedWrite,
    /// A running process's request was unanswered at the run's end.
    Stuck,
    /// A client waited too long for a lock that had no holder.
    NoHolder,
    /// The run lacks evidence that [`must_show`](super::Rules::must_show) requires.
    ShowedNothing,
    /// Entries of the journal contradict each other.
    BadJournal,
}

/// A violation's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A violation about holds, fences or the register.
    Safety,
    /// A stuck request, or a wait for a lock without a holder.
    Liveness,
    /// Missing evidence, or a wrong journal.
    Evidence,
}

#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) who: String,
    pub(crate) name: String,
    pub(crate) fence: Fence,
    /// The earliest possible time.
    pub(crate) sent: BootInstant,
    pub(crate) answered: BootInstant,
    pub(crate) accepted: bool,
    /// True if the writer had noticed its hold's end.
    pub(crate) late: bool,
}

impl Violation {
    pub(super) fn new(rule: Rule, title: impl Into<String>) -> Self {
        Self {
            rule,
            holds: Vec::new(),
            title: title.into(),
            between: " and ",
            note: String::new(),
            zero: BootInstant::from_nanos(0),
            who: Vec::new(),
            time: None,
        }
    }

    /// Sets the holds, which must share a name.
    pub(super) fn of<'a>(self, holds: impl IntoIterator<Item = &'a Hold>) -> Self {
        let holds: Vec<Hold> = holds.into_iter().cloned().collect();
        let who = holds.iter().map(|hold| hold.who.clone()).collect();
        let zero = holds.first().map_or(self.zero, |hold| hold.granted);
        Self { holds, who, zero, ..self }
    }

    pub(super) fn by(self, who: &[&str]) -> Self {
        Self { who: who.iter().map(|&who| who.to_owned()).collect(), ..self }
    }

    pub(super) fn at(self, from: BootInstant, to: BootInstant) -> Self {
        Self { time: Some((from, to.max(from))), ..self }
    }

    pub(super) fn between(self, between: &'static str) -> Self {
        Self { between, ..self }
    }

    pub(super) fn note(self, note: String) -> Self {
        Self { note, ..self }
    }

    /// Returns the violation's kind.
    pub fn kind(&self) -> Kind {
        match self.rule {
            Rule::Stuck | Rule::NoHolder => Kind::Liveness,
            Rule::ShowedNothing | Rule::BadJournal => Kind::Evidence,
            _ => Kind::Safety,
        }
    }

    /// Returns a short description.
    pub fn title(&self) -> &str {
        &self.title
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.title)?;
        for (number, hold) in self.holds.iter().enumerate() {
            match number {
                0 => write!(f, "{:?}, ", hold.name)?,
                _ => f.write_str(self.between)?,
            }
            let [asked, granted, until] =
                [hold.asked, hold.granted, hold.until].map(|instant| seconds(self.zero, instant));
            write!(
                f,
                "{} ({}, fence {}, asked at {asked:.6}, valid from {granted:.6} to {until:.6} s)",
                hold.who, hold.mode, hold.fence
            )?;
        }
        let separator = if self.holds.is_empty() || self.note.is_empty() { "" } else { "; " };
        write!(f, "{separator}{}", self.note)
    }
}
