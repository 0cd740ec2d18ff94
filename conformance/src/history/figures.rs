//! What a run showed, in figures.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use lockwright_core::BootInstant;
use serde::{Deserialize, Serialize};

use super::Rules;
use super::run::{End, Request, Run, Tracked};
use super::waiting::{Gap, gaps};

/// What a run showed, in figures. Those of several runs can be [added](Figures::add).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Runs.
    pub runs: u64,
    /// Requests, renewals, releases, writes and breaks.
    pub operations: u64,
    /// Requests for a lock.
    pub requests: u64,
    /// Requests that were granted.
    pub grants: u64,
    /// Requests for a lock that another process held.
    pub contended: u64,
    /// Waiters that were granted a lock after another process's hold had ended.
    pub hand_overs: u64,
    /// Faults that began.
    pub faults: u64,
    /// Faults with an observed effect.
    pub faults_with_effect: u64,
    /// Losses that were reported.
    pub losses: u64,
    /// Holds that passed their deadline in a process that ran on, and whose loss was never reported.
    pub unreported_losses: u64,
    /// Holds whose process was stopped when the deadline passed.
    pub paused_past_the_deadline: u64,
    /// Writes to the register.
    pub writes: u64,
    /// Writes that the register refused.
    pub writes_refused: u64,
    /// Writes by a holder that knew of its hold's end.
    pub late_writes: u64,
    /// Late writes that the register refused.
    pub late_writes_refused: u64,
    /// The longest time without a holder while a client waited.
    pub longest_without_a_holder: Duration,
    /// The largest delay between a deadline, less the margin of the rules, and the report of the loss. The time
    /// in which the process was stopped doesn't count.
    pub largest_lag_of_a_loss: Duration,
}

impl Figures {
    /// Adds the figures of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.operations += other.operations;
        self.requests += other.requests;
        self.grants += other.grants;
        self.contended += other.contended;
        self.hand_overs += other.hand_overs;
        self.faults += other.faults;
        self.faults_with_effect += other.faults_with_effect;
        self.losses += other.losses;
        self.unreported_losses += other.unreported_losses;
        self.paused_past_the_deadline += other.paused_past_the_deadline;
        self.writes += other.writes;
        self.writes_refused += other.writes_refused;
        self.late_writes += other.late_writes;
        self.late_writes_refused += other.late_writes_refused;
        self.longest_without_a_holder =
            self.longest_without_a_holder.max(other.longest_without_a_holder);
        self.largest_lag_of_a_loss = self.largest_lag_of_a_loss.max(other.largest_lag_of_a_loss);
    }

    pub(crate) fn of(run: &Run, rules: &Rules) -> Self {
        let count = |number: usize| number as u64;
        let refused = |late: bool| {
            let writes = run.writes.iter().map(|of| &of.write);
            count(writes.filter(|it| !it.accepted && (it.late || !late)).count())
        };
        let names: BTreeSet<&str> =
            run.requests.iter().map(|request| request.name.as_str()).collect();
        let gaps = names.iter().flat_map(|name| gaps(run, name, &rules.excusing_faults));
        let reported = |end: &Option<End>| matches!(end, Some(End::Lost(..)));
        let lag = |tracked| lag(run, tracked, rules.loss_margin);
        Self {
            runs: 1,
            operations: run.operations,
            requests: count(run.requests.len()),
            grants: count(run.requests.iter().filter(|request| request.hold.is_some()).count()),
            contended: count(run.requests.iter().filter(|asked| is_contended(run, asked)).count()),
            hand_overs: count(run.requests.iter().filter(|asked| is_hand_over(run, asked)).count()),
            faults: count(run.faults.len()),
            faults_with_effect: count(run.faults.iter().filter(|it| it.effect.is_some()).count()),
            losses: count(run.holds.iter().filter(|hold| reported(&hold.end)).count()),
            unreported_losses: count(run.holds.iter().filter(|it| is_unreported(run, it)).count()),
            paused_past_the_deadline: count(
                run.holds.iter().filter(|it| is_paused(run, it)).count(),
            ),
            writes: count(run.writes.len()),
            writes_refused: refused(false),
            late_writes: count(run.writes.iter().filter(|of| of.write.late).count()),
            late_writes_refused: refused(true),
            longest_without_a_holder: gaps.map(|gap: Gap| gap.length()).max().unwrap_or_default(),
            largest_lag_of_a_loss: run.holds.iter().filter_map(lag).max().unwrap_or_default(),
        }
    }
}

/// Returns the holds of other processes that a request competes with.
fn rivals<'a>(run: &'a Run, request: &Request) -> impl Iterator<Item = &'a Tracked> {
    let (who, name) = (request.who.clone(), request.name.clone());
    let mode = request.mode;
    run.holds.iter().filter(move |tracked| {
        let hold = &tracked.hold;
        hold.who != who && hold.name == name && hold.competes_with(mode)
    })
}

fn is_contended(run: &Run, request: &Request) -> bool {
    rivals(run, request).any(|rival| rival.hold.is_valid_at(request.asked))
}

/// Returns whether a waiter was granted the lock after another process's hold, which was valid while it
/// waited, had ended.
fn is_hand_over(run: &Run, request: &Request) -> bool {
    let (Some(granted), Some(_), true) = (request.ended, request.hold, request.waits) else {
        return false;
    };
    rivals(run, request)
        .any(|rival| request.asked < rival.hold.until && rival.hold.until <= granted)
}

/// Returns whether the hold passed its deadline, and neither a loss nor a release was recorded.
fn expired(run: &Run, tracked: &Tracked) -> bool {
    let is_open = matches!(tracked.end, None | Some(End::ProcessEnded));
    is_open && !tracked.is_continued && tracked.deadline < run.end
}

fn is_unreported(run: &Run, tracked: &Tracked) -> bool {
    let process = run.process(&tracked.hold.who);
    expired(run, tracked) && !process.ran_until(tracked.deadline, run.end).is_zero()
}

fn is_paused(run: &Run, tracked: &Tracked) -> bool {
    let process = run.process(&tracked.hold.who);
    let is_alive = process.killed.is_none_or(|killed| tracked.deadline < killed);
    let is_stopped = process.runs_from(tracked.deadline) > tracked.deadline;
    is_alive && is_stopped && tracked.hold.until == tracked.deadline && tracked.deadline < run.end
}

/// Returns for how long a process ran after a deadline, less `margin`, until it reported the loss.
fn lag(run: &Run, tracked: &Tracked, margin: Duration) -> Option<Duration> {
    let process = run.process(&tracked.hold.who);
    let due: BootInstant = tracked.deadline - margin;
    match tracked.end {
        Some(End::Lost(at, _)) => Some(process.ran_until(due, at)),
        _ if expired(run, tracked) => Some(process.ran_until(due, run.end)),
        _ => None,
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, requests, grants, contended, hand_overs, .. } = self;
        writeln!(f, "{operations} operations, among them {requests} requests")?;
        writeln!(f, "{grants} grants, {contended} requests for a lock that another process held")?;
        writeln!(f, "{hand_overs} hand-overs from one process to another")?;
        writeln!(
            f,
            "{} of {} faults with an observed effect",
            self.faults_with_effect, self.faults
        )?;
        writeln!(
            f,
            "{} losses reported, {} never reported, {} deadlines passed in a stopped process",
            self.losses, self.unreported_losses, self.paused_past_the_deadline
        )?;
        writeln!(
            f,
            "{} of {} writes refused by the register, {} of {} late writes refused",
            self.writes_refused, self.writes, self.late_writes_refused, self.late_writes
        )?;
        writeln!(
            f,
            "longest time without a holder while a client waited: {:.3} s",
            self.longest_without_a_holder.as_secs_f64()
        )?;
        write!(
            f,
            "largest delay between a deadline and the report of the loss: {:.6} s",
            self.largest_lag_of_a_loss.as_secs_f64()
        )
    }
}
