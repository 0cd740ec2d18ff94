use std::time::Duration;

use super::cores;
use super::pace::{Pace, TTL};
use super::turns::Turns;
use super::worker::{Failure, Program, Worker};
use crate::results::{Kind, Regime};
use crate::servers::Servers;
use rustix::time::{ClockId, clock_gettime};

const HEAD_START: Duration = Duration::from_millis(100);

pub(super) struct RunningSubject<'a> {
    pub(super) program: &'a Program,
    pub(super) servers: &'a Servers,
    pub(super) pace: &'a Pace,
    words: String,
    workers: Vec<Worker>,
}

pub(super) struct Used<T> {
    pub(super) of: T,
    pub(super) served: Option<f64>,
    pub(super) keep_alives: Option<f64>,
    pub(super) servers_us: f64,
    pub(super) subject_us: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) time: Duration,
    pub(super) section: Duration,
}

impl<'a> RunningSubject<'a> {
    pub(super) fn of(
        program: &'a Program,
        backend: &str,
        servers: &'a Servers,
        pace: &'a Pace,
    ) -> Self {
        let words = match program.kind {
            Kind::Peer => servers.addresses.join(" "),
            _ => servers.url.clone(),
        };
        let words = format!("open {backend} {words}");
        Self { program, servers, pace, words, workers: Vec::new() }
    }

    pub(super) fn spawn(&mut self, count: usize) -> Result<&mut [Worker], Failure> {
        let before = self.workers.len();
        while self.workers.len() < count {
            self.workers.push(self.program.worker()?);
        }
        let mut new = self.workers[before.min(count)..].iter_mut();
        if before == 0
            && let Some(first) = new.next()
        {
            first.send(&self.words);
            first.answer("ready", Duration::ZERO)?;
        }
        let mut new: Vec<_> = new.collect();
        new.iter_mut().for_each(|worker| worker.send(&self.words));
        new.iter_mut().try_for_each(|worker| worker.answer("ready", Duration::ZERO).map(drop))?;
        Ok(&mut self.workers[..count])
    }

    pub(super) fn dismiss(&mut self) {
        self.workers.clear();
    }

    /// Returns the nanoseconds of each acquire with its release.
    pub(super) fn pairs(
        &mut self,
        regime: Regime,
        name: &str,
        time: Duration,
    ) -> Result<Used<Vec<u64>>, Failure> {
        let command = format!("pairs {name} {} {}", TTL.as_millis(), time.as_millis());
        self.used(regime, 1, |workers| {
            workers[0].send(&command);
            let answer = workers[0].answer("pairs", time)?;
            let times: Result<Vec<u64>, _> = answer.split_whitespace().map(str::parse).collect();
            times.map_err(|error| Failure::Failed(format!("not a time: {error}")))
        })
    }

    /// After an error, the caller must dismiss the subject: workers may still run.
    pub(super) fn contest(
        &mut self,
        regime: Regime,
        name: &str,
        contest: &Contest,
    ) -> Result<Used<Turns>, Failure> {
        let Contest { processes, tasks, time, section } = contest;
        let ttl = TTL.as_millis();
        self.used(regime, *processes, |workers| {
            let start = now() + HEAD_START.as_nanos() as u64;
            let end = start + time.as_nanos() as u64;
            let section = section.as_micros();
            for worker in &mut *workers {
                worker.send(&format!("turns {name} {ttl} {tasks} {start} {end} {section}"));
            }
            let answers: Result<Vec<String>, Failure> =
                workers.iter_mut().map(|worker| worker.answer("turns", *time)).collect();
            Turns::parse(answers?.iter().map(String::as_str), start, end).map_err(Failure::Failed)
        })
    }

    pub(super) fn used<T>(
        &mut self,
        regime: Regime,
        count: usize,
        act: impl FnOnce(&mut [Worker]) -> Result<T, Failure>,
    ) -> Result<Used<T>, Failure> {
        let servers = self.servers;
        let subjects: Vec<u32> = self.spawn(count)?.iter().map(Worker::pid).collect();
        let theirs = servers.processes();
        if !self.pace.is_smoke {
            regime.pin(&theirs, &subjects);
        }
        // Queries for keep-alives count as commands, so they precede the first count and follow the
        // last.
        let alive = servers.counts.keep_alives().map_err(unanswered)?;
        let served = servers.counts.served().map_err(unanswered)?;
        let before = (cores::used(&theirs), cores::used(&subjects));
        let of = act(&mut self.workers[..count])?;
        // Some servers start a process per connection.
        let after = (cores::used(&servers.processes()), cores::used(&subjects));
        let served = servers.served_since(served).map_err(unanswered)?.map(|served| served as f64);
        let keep_alives = servers.keep_alives_since(&alive).map_err(unanswered)?;
        let us =
            |after: Duration, before: Duration| after.saturating_sub(before).as_secs_f64() * 1e6;
        Ok(Used {
            of,
            served,
            keep_alives: keep_alives.map(|count| count as f64),
            servers_us: us(after.0, before.0),
            subject_us: us(after.1, before.1),
        })
    }
}

fn unanswered(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the servers: {error}"))
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
