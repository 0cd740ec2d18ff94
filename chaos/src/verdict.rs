//! What a schedule showed: the rules that apply to it, and the outcome.

use std::fmt;
use std::time::Duration;

use lockwright::Profile;
use lockwright_conformance::history::journal::Entry;
use lockwright_conformance::history::{Checked, Rules, Violation, check};

use crate::faults::{Fault, Promise};
use crate::inject::Injected;
use crate::plan::Schedule;

/// How much longer than its TTL and its poll a free lock may wait for the next holder: two cores run many processes.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a schedule ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was promised and kept.
    Kept,
    /// Some of it isn't promised under these faults. The rest was kept.
    NotPromised,
    /// Nothing was contended or handed over, or a fault had no effect.
    ShowedNothing,
    /// A promise was broken.
    Violation,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kept => "kept",
            Self::NotPromised => "not-promised",
            Self::ShowedNothing => "showed-nothing",
            Self::Violation => "VIOLATION",
        })
    }
}

/// The checked history of a schedule, and what else went wrong.
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) checked: Checked,
    pub(crate) injected: Vec<Injected>,
    /// Clients that failed, and what was left on the servers.
    pub(crate) problems: Vec<String>,
}

impl Verdict {
    /// Checks a schedule.
    pub(crate) fn of(
        schedule: &Schedule,
        profile: &Profile,
        entries: &[Entry],
        injected: Vec<Injected>,
        problems: Vec<String>,
    ) -> Self {
        let promise = schedule.promise(profile);
        let checked = check(entries, &rules(schedule, profile, promise));
        let shows_nothing = |one: &Violation| matches!(one, Violation::ShowedNothing(_));
        let outcome = if !problems.is_empty() || !checked.violations.iter().all(shows_nothing) {
            Outcome::Violation
        } else if !checked.violations.is_empty() {
            Outcome::ShowedNothing
        } else if promise != Promise::KEPT {
            Outcome::NotPromised
        } else {
            Outcome::Kept
        };
        Self { outcome, checked, injected, problems }
    }
}

fn rules(schedule: &Schedule, profile: &Profile, promise: Promise) -> Rules {
    let faults = schedule.faults.iter().filter(|one| !one.fault.is_a_clients());
    Rules {
        exclusion: promise.exclusion,
        fences: promise.fences,
        strict_order_of_fences: promise.fences,
        longest_wait: Some(longest_wait(schedule, profile)),
        excusing_faults: faults.map(|one| one.fault.name().to_owned()).collect(),
        ..Rules::default()
    }
}

/// The bound on waiting: a dead holder's TTL, a poll, and after each fault the time until clients are connected.
fn longest_wait(schedule: &Schedule, profile: &Profile) -> Duration {
    let after = |fault: Fault| match fault {
        // A dead hold lasts longer by the step.
        Fault::ClockBack => Duration::from_millis(2_500),
        Fault::ClientKilled | Fault::ClientStopped => Duration::ZERO,
        _ => schedule.ttl(),
    };
    let faults: Duration = schedule.faults.iter().map(|one| after(one.fault)).sum();
    schedule.ttl() + profile.slow_poll + faults + PATIENCE
}
