use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use lockwright_core::{BootInstant, Mode};

use super::hold::Hold;
use super::rules::Rules;
use super::run::{End, Request, Run, Tracked};
use super::waiting::gaps;

/// Statistics of one run, or the sum of [several](Figures::add). Integers are counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests, renewals, releases, writes and breaks.
    pub operations: u64,
    /// Requests.
    pub requests: u64,
    /// Granted requests.
    pub grants: u64,
    /// Requests sent while another process held the lock.
    pub contended: u64,
    /// Grants to waiters after another process's hold ended.
    pub hand_overs: u64,
    /// Faults.
    pub faults: u64,
    /// Reported losses.
    pub losses: u64,
    /// Writes to the register.
    pub writes: u64,
    /// Refused writes.
    pub writes_refused: u64,
    /// Writes after the holder noticed its hold's end.
    pub late_writes: u64,
    /// Refused late writes.
    pub late_writes_refused: u64,
    /// The longest wait while the lock had no holder.
    pub longest_without_a_holder: Duration,
    /// The largest delay of a loss report, due [`loss_margin`](Rules::loss_margin) before the
    /// deadline. The process's pauses don't count.
    pub largest_lag_of_a_loss: Duration,
}

impl Figures {
    /// Adds the statistics of other runs.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.requests += other.requests;
        self.grants += other.grants;
        self.contended += other.contended;
        self.hand_overs += other.hand_overs;
        self.faults += other.faults;
        self.losses += other.losses;
        self.writes += other.writes;
        self.writes_refused += other.writes_refused;
        self.late_writes += other.late_writes;
        self.late_writes_refused += other.late_writes_refused;
        self.longest_without_a_holder =
            self.longest_without_a_holder.max(other.longest_without_a_holder);
        self.largest_lag_of_a_loss = self.largest_lag_of_a_loss.max(other.largest_lag_of_a_loss);
    }

    pub(crate) fn of(run: &Run, rules: &Rules) -> Self {
        let mut by_name: HashMap<&str, Vec<&Hold>> = HashMap::new();
        for Tracked { hold, .. } in &run.holds {
            by_name.entry(&hold.name).or_default().push(hold);
        }
        let rivals = |request: &Request| {
            let (who, mode) = (request.who.clone(), request.mode);
            let holds = by_name.get(&*request.name).into_iter().flatten().copied();
            holds.filter(move |hold| hold.who != who && hold.competes_with(mode))
        };
        let is_contended =
            |request: &Request| rivals(request).any(|rival| rival.is_valid_at(request.asked));
        let is_hand_over = |request: &Request| {
            let granted = request.ended.filter(|_| request.hold.is_some() && request.waits);
            let ends_meanwhile =
                |rival: &Hold| request.asked < rival.until && Some(rival.until) <= granted;
            granted.is_some() && rivals(request).any(ends_meanwhile)
        };
        let gaps = run.names().into_iter().flat_map(|name| gaps(run, name, &rules.excusing_faults));
        let lags = run.holds.iter().filter_map(|hold| lag(run, hold, rules.loss_margin));
        Self {
            operations: run.operations,
            requests: run.requests.len() as u64,
            grants: count(&run.requests, |request| request.hold.is_some()),
            contended: count(&run.requests, is_contended),
            hand_overs: count(&run.requests, is_hand_over),
            faults: run.faults.len() as u64,
            losses: count(&run.holds, |hold| matches!(hold.end, Some(End::Lost(..)))),
            writes: run.writes.len() as u64,
            writes_refused: count(&run.writes, |of| !of.write.accepted),
            late_writes: count(&run.writes, |of| of.write.late),
            late_writes_refused: count(&run.writes, |of| of.write.late && !of.write.accepted),
            longest_without_a_holder: gaps.map(|gap| gap.length()).max().unwrap_or_default(),
            largest_lag_of_a_loss: lags.max().unwrap_or_default(),
        }
    }
}

fn count<T>(items: &[T], is: impl Fn(&T) -> bool) -> u64 {
    items.iter().filter(|item| is(item)).count() as u64
}

fn expired(run: &Run, tracked: &Tracked) -> bool {
    let is_open = matches!(tracked.end, None | Some(End::ProcessEnded));
    is_open && !tracked.is_continued && tracked.deadline < run.end
}

pub(crate) fn paused_and_never_refused(run: &Run) -> BTreeSet<&String> {
    let paused = run.holds.iter().filter(|hold| paused_until(run, hold).is_some());
    let mut processes: BTreeSet<&String> = paused.map(|tracked| &tracked.hold.who).collect();
    for of in run.writes.iter().filter(|of| !of.write.accepted) {
        let continued = paused_until(run, &run.holds[of.hold]);
        if continued.is_some_and(|continued| continued <= of.write.sent) {
            processes.remove(&of.write.who);
        }
    }
    processes
}

fn paused_until(run: &Run, tracked: &Tracked) -> Option<BootInstant> {
    let process = run.process(&tracked.hold.who);
    let continued = process.runs_from(tracked.deadline);
    let is_paused = tracked.deadline < continued && continued < run.end;
    let is_alive = process.killed.is_none_or(|killed| continued < killed);
    let is_open = tracked.hold.until == tracked.deadline;
    let is_meant = tracked.hold.mode == Mode::Exclusive && is_open && is_paused && is_alive;
    is_meant.then_some(continued)
}

fn lag(run: &Run, tracked: &Tracked, margin: Duration) -> Option<Duration> {
    let process = run.process(&tracked.hold.who);
    let due: BootInstant = tracked.deadline - margin;
    match tracked.end {
        Some(End::Lost(at, _)) => Some(process.awake(due, at)),
        _ if expired(run, tracked) => Some(process.awake(due, run.end)),
        _ => None,
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, requests, grants, contended, hand_overs, .. } = self;
        writeln!(f, "{operations} operations, among them {requests} requests")?;
        writeln!(f, "{grants} grants, {contended} requests for a lock that another process held")?;
        writeln!(f, "{hand_overs} hand-overs from one process to another")?;
        writeln!(f, "{} faults, {} losses reported", self.faults, self.losses)?;
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
