//! The processes of one subject on one backend.

use std::time::Duration;

use super::cores;
use super::pace::Pace;
use super::player::{Failure, Player, Program};
use super::turns::Turns;
use crate::results::Regime;
use crate::servers::{Servers, Watched};
use rustix::time::{ClockId, clock_gettime};

const HEAD_START: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) program: &'a Program,
    words: String,
    ttl: Duration,
    stays_put: bool,
    players: Vec<Player>,
}

#[derive(Debug)]
pub(super) struct Used<T> {
    pub(super) of: T,
    pub(super) served: Option<f64>,
    pub(super) servers_us: f64,
    pub(super) contestant_us: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) time: Duration,
    pub(super) section: Duration,
}

impl<'a> Subject<'a> {
    pub(super) fn of(
        program: &'a Program,
        backend: &str,
        servers: &dyn Servers,
        pace: &Pace,
    ) -> Self {
        let words = match program.kind {
            crate::results::Kind::Peer => servers.addresses().join(" "),
            _ => servers.url(),
        };
        Self {
            program,
            words: format!("open {backend} {words}"),
            ttl: pace.ttl,
            stays_put: pace.stays_put,
            players: Vec::new(),
        }
    }

    #[must_use]
    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn muster(&mut self, count: usize) -> Result<&mut [Player], Failure> {
        let before = self.players.len();
        while self.players.len() < count {
            self.players.push(self.program.player()?);
        }
        let mut new = self.players[before.min(count)..].iter_mut();
        if before == 0
            && let Some(first) = new.next()
        {
            first.send(&self.words);
            first.answer("ready", Duration::ZERO)?;
        }
        let mut new: Vec<_> = new.collect();
        new.iter_mut().for_each(|player| player.send(&self.words));
        new.iter_mut().try_for_each(|player| player.answer("ready", Duration::ZERO).map(drop))?;
        Ok(&mut self.players[..count])
    }

    pub(super) fn dismiss(&mut self) {
        self.players.clear();
    }

    fn ids(&self, count: usize) -> Vec<u32> {
        self.players.iter().take(count).map(Player::pid).collect()
    }

    /// In nanoseconds per pair.
    pub(super) fn pairs(
        &mut self,
        servers: &Watched,
        regime: Regime,
        name: &str,
        time: Duration,
    ) -> Result<Used<Vec<u64>>, Failure> {
        let command = format!("pairs {name} {} {}", self.ttl.as_millis(), time.as_millis());
        self.used(servers, regime, 1, |players| {
            players[0].send(&command);
            let answer = players[0].answer("pairs", time)?;
            let times: Result<Vec<u64>, _> = answer.split_whitespace().map(str::parse).collect();
            times.map_err(|error| Failure::Failed(format!("not a time: {error}")))
        })
    }

    /// After an error others may still run: dismiss the subject.
    pub(super) fn contest(
        &mut self,
        servers: &Watched,
        regime: Regime,
        name: &str,
        contest: &Contest,
    ) -> Result<Used<Turns>, Failure> {
        let Contest { processes, tasks, time, section } = contest;
        let ttl = self.ttl.as_millis();
        self.used(servers, regime, *processes, |players| {
            let start = now() + HEAD_START.as_nanos() as u64;
            let end = start + time.as_nanos() as u64;
            let section = section.as_micros();
            for player in &mut *players {
                player.send(&format!("turns {name} {ttl} {tasks} {start} {end} {section}"));
            }
            let answers: Result<Vec<String>, Failure> =
                players.iter_mut().map(|player| player.answer("turns", *time)).collect();
            Turns::parse(answers?.iter().map(String::as_str), start, end).map_err(Failure::Failed)
        })
    }

    pub(super) fn used<T>(
        &mut self,
        servers: &Watched,
        regime: Regime,
        count: usize,
        act: impl FnOnce(&mut [Player]) -> Result<T, Failure>,
    ) -> Result<Used<T>, Failure> {
        self.muster(count)?;
        let contestants = self.ids(count);
        let theirs = servers.processes();
        if self.stays_put {
            regime.release_mode(&theirs, &contestants);
        }
        let served = servers.servers().served().map_err(unanswered)?;
        let before = (cores::used(&theirs), cores::used(&contestants));
        let of = act(&mut self.players[..count])?;
        // Some servers have a process per connection.
        let after = (cores::used(&servers.processes()), cores::used(&contestants));
        let served = servers.served_since(served).map_err(unanswered)?.map(|served| served as f64);
        let us =
            |after: Duration, before: Duration| after.saturating_sub(before).as_secs_f64() * 1e6;
        Ok(Used {
            of,
            served,
            servers_us: us(after.0, before.0),
            contestant_us: us(after.1, before.1),
        })
    }
}

fn unanswered(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(format!("the servers: {error}"))
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
