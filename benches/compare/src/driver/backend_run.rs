use std::time::Duration;

use super::pace::{Pace, TASKS};
use super::progress::Progress;
use super::subject::{Contest, RunningSubject, Used};
use super::table::{Key, Round, Table};
use super::turns::{Turns, quantile};
use super::worker::{Failure, Program};
use crate::results::{Exclusion, Regime};
use crate::servers::Servers;

pub(super) struct BackendRun<'a> {
    pub(super) backend: &'a str,
    pub(super) pace: &'a Pace,
    pub(super) subjects: Vec<RunningSubject<'a>>,
    pub(super) table: Table,
    pub(super) progress: &'a Progress,
    only: &'a [String],
}

impl<'a> BackendRun<'a> {
    pub(super) fn new(
        backend: &'a str,
        servers: &'a Servers,
        pace: &'a Pace,
        programs: &'a [Program],
        only: &'a [String],
        progress: &'a Progress,
    ) -> Self {
        let can = programs.iter().filter(|program| program.is_for(backend));
        let subjects =
            can.map(|program| RunningSubject::of(program, backend, servers, pace)).collect();
        Self { backend, pace, subjects, table: Table::default(), progress, only }
    }

    /// The subjects' background work would disturb other measurements.
    pub(super) fn dismiss_all(&mut self) {
        self.subjects.iter_mut().for_each(RunningSubject::dismiss);
    }

    pub(super) fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == workload)
    }

    pub(super) fn is_in_one_process(&self) -> bool {
        self.backend == "memory"
    }

    pub(super) fn check_exclusion(&mut self) -> Vec<Exclusion> {
        let mut seen = Vec::new();
        let alone = self.is_in_one_process();
        let (processes, tasks) = if alone { (1, 8) } else { (self.pace.processes.min(4), 2) };
        let section = Duration::from_micros(100);
        let contest = Contest { processes, tasks, time: self.pace.exclusion, section };
        for mut subject in std::mem::take(&mut self.subjects) {
            let name = subject.program.handshake.name.clone();
            self.progress.say(&format!("{}: checking mutual exclusion of {name}", self.backend));
            let lock = format!("bench/{}/{name}/exclusion", self.backend);
            let (turns, overlaps, error) = match self.check(&mut subject, &lock, contest) {
                Ok(Used { of: turns, .. }) => {
                    let hand_overs = turns.hand_overs();
                    let error = (hand_overs < self.pace.hand_overs_seen)
                        .then(|| format!("it changed hands {hand_overs} times only"));
                    (turns.count(), turns.overlaps(), error)
                }
                Err(failure) => (0, 0, Some(failure.text().to_owned())),
            };
            let exclusion = Exclusion {
                backend: self.backend.to_owned(),
                subject: name,
                turns,
                overlaps,
                error,
            };
            if exclusion.error.is_none() && exclusion.overlaps == 0 {
                self.subjects.push(subject);
            } else {
                self.progress.tell(&format!("{}: not timed: {exclusion:?}", self.backend));
            }
            seen.push(exclusion);
        }
        seen
    }

    /// After few hand-overs, repeats the check for longer, because a subject may start late.
    fn check(
        &self,
        subject: &mut RunningSubject<'_>,
        lock: &str,
        contest: Contest,
    ) -> Result<Used<Turns>, Failure> {
        let mut outcome = subject.contest(Regime::TwoCores, lock, &contest);
        for longer in [4, 16] {
            let enough = self.pace.hand_overs_seen;
            if !outcome.as_ref().is_ok_and(|used| used.of.hand_overs() < enough) {
                break;
            }
            let contest = Contest { time: contest.time * longer, ..contest };
            outcome = subject.contest(Regime::TwoCores, lock, &contest);
        }
        outcome
    }

    /// Runs workloads untimed, so that JIT compilers compile the subjects.
    pub(super) fn warm_up(&mut self) {
        let (time, processes) = (self.pace.warming, self.pace.processes);
        let processes = if self.is_in_one_process() { 1 } else { processes };
        for subject in &mut self.subjects {
            let name = &subject.program.handshake.name;
            self.progress.say(&format!("{}: {name} warms up", self.backend));
            let lock = format!("bench/{}/{name}/warm-up", self.backend);
            let contest = Contest { processes, tasks: 1, time, section: Duration::ZERO };
            let alone = subject.pairs(Regime::TwoCores, &format!("{lock}/pairs"), time);
            let together = subject.contest(Regime::TwoCores, &lock, &contest);
            if alone.is_err() || together.is_err() {
                subject.dismiss();
            }
        }
    }

    pub(super) fn measure_rounds(&mut self) {
        let pace = self.pace;
        let processes = Contest {
            processes: pace.processes,
            tasks: 1,
            time: pace.contest,
            section: Duration::ZERO,
        };
        let keeping =
            Contest { time: pace.contest_5ms, section: Duration::from_millis(5), ..processes };
        let tasks = Contest { processes: 1, tasks: TASKS, time: pace.pairs, ..processes };
        for regime in [Regime::TwoCores, Regime::OneCore] {
            for round in 0..pace.rounds {
                self.each("pairs", regime, round, 0, |subject, lock| {
                    subject.pairs(regime, lock, pace.pairs).map(of_pairs)
                });
                if !self.is_in_one_process() {
                    self.contests("hand-over", regime, round, 0, processes);
                    self.contests("hand-over-5ms", regime, round, 0, keeping);
                }
                self.contests("tasks", regime, round, 0, tasks);
            }
        }
    }

    pub(super) fn measure_growth(&mut self) {
        let (pace, regime) = (self.pace, Regime::TwoCores);
        let alone = Contest { processes: 1, tasks: 1, time: pace.growth, section: Duration::ZERO };
        let at_most = if self.is_in_one_process() { 1 } else { pace.processes };
        for round in 0..pace.growth_rounds {
            for waiters in &pace.waiters {
                let processes = at_most.min(*waiters as usize);
                let tasks = (*waiters as usize).div_ceil(processes);
                let contest = Contest { processes, tasks, ..alone };
                self.contests("waiters", regime, round, *waiters, contest);
            }
        }
        if self.is_in_one_process() {
            return;
        }
        // The subjects' waiters may have left a thousand connections.
        self.dismiss_all();
        // The rounds are the inner loop, so that processes start only once per count.
        for count in &pace.growing_processes {
            for round in 0..pace.growth_rounds {
                let contest = Contest { processes: *count as usize, ..alone };
                self.contests("processes", regime, round, *count, contest);
            }
        }
    }

    fn contests(
        &mut self,
        workload: &'static str,
        regime: Regime,
        round: usize,
        at: u64,
        contest: Contest,
    ) {
        self.each(workload, regime, round, at, |subject, lock| {
            let used = subject.contest(regime, lock, &contest)?;
            let Contest { processes, tasks, .. } = contest;
            match used.of.overlaps() {
                0 => Ok(of_contest(used, if processes == 1 { tasks } else { processes })),
                overlaps => {
                    let count = used.of.count();
                    Err(Failure::Failed(format!("{overlaps} of {count} turns overlap another")))
                }
            }
        });
    }

    pub(super) fn each(
        &mut self,
        workload: &'static str,
        regime: Regime,
        round: usize,
        at: u64,
        mut act: impl FnMut(&mut RunningSubject<'a>, &str) -> Result<Round, Failure>,
    ) {
        if !self.wants(workload) {
            return;
        }
        let count = self.subjects.len();
        for index in 0..count {
            let subject = &mut self.subjects[(index + round) % count];
            if !self.pace.is_for(subject.program.kind, workload, at, regime) {
                continue;
            }
            let name = subject.program.handshake.name.clone();
            self.progress.say(&format!(
                "{}, {workload}, {}: {name}, round {}",
                self.backend,
                regime.id(),
                round + 1
            ));
            let lock =
                format!("bench/{}/{name}/{workload}/{}/{at}/{round}", self.backend, regime.id());
            let key = Key { workload, at, regime, subject: name };
            if !self.table.is_over(&key) {
                let outcome = act(subject, &lock);
                if let Err(Failure::Failed(_)) = outcome {
                    subject.dismiss();
                }
                self.table.add(key, outcome);
            }
        }
    }
}

pub(super) fn of_pairs(mut used: Used<Vec<u64>>) -> Round {
    let mut round = Round::default();
    let times = &mut used.of;
    let (count, sum) = (times.len() as f64, times.iter().sum::<u64>() as f64 / 1e9);
    round.add("pairs_per_second", count / sum);
    round.add("client_cpu_us_per_pair", used.subject_us / count);
    round.add("server_cpu_us_per_pair", used.servers_us / count);
    round.add("server_commands_per_pair", used.served.map(|served| served / count));
    round.sample(times);
    times.sort_unstable();
    round.add("p50_us", quantile(times, 0.5).map(microseconds));
    round.add("p99_us", quantile(times, 0.99).map(microseconds));
    round
}

fn of_contest(used: Used<Turns>, workers: usize) -> Round {
    let mut round = Round::default();
    let (turns, count) = (&used.of, used.of.count() as f64);
    let hand_overs = turns.hand_overs() as f64;
    let waits = turns.waits();
    round.add("turns_per_second", turns.per_second());
    round.add("hand_overs_per_second", turns.hand_overs_per_second());
    round.add("wait_p50_us", quantile(&waits, 0.5).map(microseconds));
    round.add("wait_p99_us", quantile(&waits, 0.99).map(microseconds));
    round.add("longest_wait_us", waits.last().copied().map(microseconds));
    round.add("jain", turns.jain(workers));
    round.add("client_cpu_us_per_turn", used.subject_us / count);
    round.add("server_cpu_us_per_turn", used.servers_us / count);
    round.add("server_commands_per_turn", used.served.map(|served| served / count));
    round.add("server_commands_per_hand_over", used.served.map(|served| served / hand_overs));
    round.sample(&waits);
    round
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
