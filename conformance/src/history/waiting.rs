use std::time::Duration;

use lockwright_core::BootInstant;

use super::run::{Request, Run};
use super::violation::{Rule, Violation};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: BootInstant,
    pub(crate) to: BootInstant,
}

impl Gap {
    pub(crate) fn length(&self) -> Duration {
        self.to.saturating_since(self.from)
    }
}

pub(crate) fn check_stuck(run: &Run, violations: &mut Vec<Violation>) {
    let open = |request: &&Request| request.ended.is_none() && !run.process(&request.who).is_over();
    violations.extend(run.requests.iter().filter(open).map(|request| {
        let Request { who, name, asked, .. } = request;
        let violation = Violation::new(Rule::Stuck, "a request never ended");
        let note = format!("{who} asked for {name:?} at {:.6} s", run.since(*asked));
        violation.by(&[who]).at(*asked, run.end).note(note)
    }));
}

/// Returns a name's gaps, except during an `excusing` fault or the suspension of all waiters.
pub(crate) fn gaps(run: &Run, name: &str, excusing: &[String]) -> Vec<Gap> {
    // Changes of the number of waiters, and of valid holds and excusing faults.
    let mut changes: Vec<(BootInstant, i64, i64)> = Vec::new();
    for request in run.requests.iter().filter(|request| request.waits && request.name == name) {
        let (from, to) = (request.asked, run.wait_end(request));
        for (from, to) in run.process(&request.who).running(from, to) {
            changes.extend([(from, 1, 0), (to, -1, 0)]);
        }
    }
    for tracked in run.holds.iter().filter(|tracked| tracked.hold.name == name) {
        let (from, to) = (tracked.hold.granted, tracked.hold.until.max(tracked.hold.granted));
        changes.extend([(from, 0, 1), (to, 0, -1)]);
    }
    for fault in run.faults.iter().filter(|fault| excusing.contains(&fault.fault)) {
        changes.extend([(fault.from, 0, 1), (fault.to.unwrap_or(run.end), 0, -1)]);
    }
    changes.sort_unstable();
    sweep(&changes)
}

fn sweep(changes: &[(BootInstant, i64, i64)]) -> Vec<Gap> {
    let (mut waiting, mut excused, mut begun) = (0, 0, None);
    let mut gaps = Vec::new();
    for same in changes.chunk_by(|a, b| a.0 == b.0) {
        let at = same[0].0;
        waiting += same.iter().map(|change| change.1).sum::<i64>();
        excused += same.iter().map(|change| change.2).sum::<i64>();
        match (begun, waiting > 0 && excused == 0) {
            (None, true) => begun = Some(at),
            (Some(from), false) => {
                gaps.push(Gap { from, to: at });
                begun = None;
            }
            _ => {}
        }
    }
    gaps
}

pub(crate) fn check_gaps(
    run: &Run,
    name: &str,
    gaps: &[Gap],
    limit: Duration,
    violations: &mut Vec<Violation>,
) {
    let too_long = gaps.iter().filter(|gap| gap.length() > limit);
    violations.extend(too_long.map(|gap| {
        let title = "a client waited for too long without a holder";
        let (from, length) = (run.since(gap.from), gap.length());
        let note = format!("{name:?} from {from:.6} s, for {length:?}; {limit:?} is allowed");
        Violation::new(Rule::NoHolder, title).at(gap.from, gap.to).note(note)
    }));
}
