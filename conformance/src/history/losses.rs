use std::time::Duration;

use lockwright_core::{BootInstant, Mode};

use super::hold::Hold;
use super::rules::Rules;
use super::run::{End, Run, Tracked};
use super::violation::{Rule, Violation};

/// Checks exclusive holds for [`Rule::LateLoss`].
pub(crate) fn check(
    run: &Run,
    rules: &Rules,
    allowance: Duration,
    violations: &mut Vec<Violation>,
) {
    let exclusive = |tracked: &&Tracked| tracked.hold.mode == Mode::Exclusive;
    for tracked in run.holds.iter().filter(exclusive).filter(|tracked| !tracked.is_continued) {
        let process = run.process(&tracked.hold.who);
        let due = tracked.deadline - rules.loss_margin;
        let ran_too_long = |until| process.awake(due, until) > allowance;
        let reported = match tracked.end {
            Some(End::Releasing | End::Lost(..)) => tracked.over,
            _ => None,
        };
        let next = next_of(run, tracked);
        let is_late = |next: &Hold| {
            tracked.over.is_none_or(|over| next.granted < over) && ran_too_long(next.granted)
        };
        let late = next.filter(|next| is_late(next));
        let end = tracked.over.unwrap_or(run.end);
        let is_open = reported.is_none() && tracked.deadline < end && ran_too_long(end);
        if late.is_some() || is_open {
            let title = match late {
                Some(_) => "a loss was reported after the next grant",
                None => "a loss was never reported",
            };
            let due = late.map_or(tracked.hold.until, |next| next.granted);
            let violation = Violation::new(Rule::LateLoss, title);
            let violation = violation.of([&tracked.hold].into_iter().chain(late));
            let violation = violation.between("; the next grant was to ");
            let note = match reported {
                Some(at) => format!("reported at {:.6} s", run.since(at)),
                None => "not reported".to_owned(),
            };
            violations.push(violation.at(due, reported.unwrap_or(due)).note(note));
        }
    }
}

/// Returns the first conflicting grant to another process after the hold's deadline. Earlier ones
/// followed a break, or are overlaps.
fn next_of<'a>(run: &'a Run, tracked: &Tracked) -> Option<&'a Hold> {
    let hold = &tracked.hold;
    let since: BootInstant = tracked.deadline.max(hold.granted);
    let others = run.holds.iter().map(|other| &other.hold).filter(|next| {
        next.name == hold.name
            && next.who != hold.who
            && next.excludes(hold)
            && since <= next.granted
    });
    others.min_by_key(|next| next.granted)
}
