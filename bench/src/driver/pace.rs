//! How long each measurement takes, and with how many.

use std::time::Duration;

use super::field::BESIDE;
use crate::WORKLOADS;
use crate::results::{Kind, Regime};

/// The numbers of a run.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// How often each cell is measured.
    pub(super) rounds: usize,
    /// How many processes contend.
    pub(super) processes: usize,
    /// How many tasks of one process contend.
    pub(super) tasks: usize,
    /// `pairs`.
    pub(super) pairs: Duration,
    /// A contest with an empty section.
    pub(super) contest: Duration,
    /// A contest with a section of 5 ms.
    pub contest_5ms: Duration,
    /// The check of exclusion.
    pub(super) exclusion: Duration,
    /// Doing, before anything is timed, what will be.
    pub(super) warming: Duration,
    /// Until all have settled down to wait.
    pub(super) settling: Duration,
    /// How long the servers are looked at while all wait: a third of the TTL, so that what is done once in
    /// that time is seen once.
    pub(super) waiting: Duration,
    /// How many wait then.
    pub(super) waiters_waiting: usize,
    /// How many holds are renewed, and held beside pairs.
    pub(super) holds: Vec<u64>,
    /// The most that a peer is asked for. Those who have a watchdog have a task or a thread for each.
    pub(super) holds_of_peers: u64,
    /// How long acquiring them may take.
    pub(super) holding: Duration,
    /// How long after all are held renewals begin to be looked at: half the time between two, so that who
    /// renews all at once does it in the middle.
    pub(super) before_renewal: Duration,
    /// How long renewals are looked at: a third of the TTL is once for each.
    pub(super) renewal: Duration,
    /// The TTL of all locks, where the library has one.
    pub(super) ttl: Duration,
    /// How often a point of a growth curve is measured.
    pub(super) growth_rounds: usize,
    /// One contest of a growth curve.
    pub(super) growth: Duration,
    /// How many waiters: such as the processes share evenly.
    pub(super) waiters: Vec<u64>,
    /// The most that peers are asked for. All of them are granted once more after the end, and those who
    /// poll would take minutes for a thousand.
    pub(super) waiters_of_peers: u64,
    /// How often it must change hands for the check of exclusion to have seen anything.
    pub(super) hand_overs_seen: usize,
    /// Whether everybody stays on the cores of the regime.
    pub(super) stays_put: bool,
    /// Whether peers are only seen to work, by the first measurements in one regime.
    pub(super) glances_at_peers: bool,
    /// How many processes. A peer's are not: two dozens of virtual machines would measure the memory.
    pub(super) growing_processes: Vec<u64>,
}

impl Pace {
    /// A run whose figures mean something.
    #[must_use]
    pub(super) fn full(rounds: usize) -> Self {
        Self {
            rounds,
            processes: crate::workload::PROCESSES,
            tasks: 8,
            pairs: ms(200),
            contest: ms(500),
            contest_5ms: ms(600),
            exclusion: ms(1_000),
            warming: ms(1_500),
            settling: ms(1_000),
            waiting: ms(5_000),
            waiters_waiting: 100,
            holds: vec![1_000, 10_000, 100_000],
            holds_of_peers: 1_000,
            holding: ms(20_000),
            before_renewal: ms(2_500),
            renewal: ms(5_000),
            ttl: ms(15_000),
            growth_rounds: rounds.min(3),
            growth: ms(500),
            waiters: vec![2, 8, 96, 1_000],
            waiters_of_peers: 96,
            hand_overs_seen: 10,
            stays_put: true,
            glances_at_peers: false,
            growing_processes: vec![2, 4, 16, 32],
        }
    }

    /// Whether somebody is measured at this.
    pub(super) fn is_for(&self, kind: Kind, workload: &str, at: u64, regime: Regime) -> bool {
        let of_peers = match workload {
            "pairs" | "hand-over" if self.glances_at_peers => regime == Regime::TwoCores,
            _ if self.glances_at_peers => false,
            "processes" => false,
            "waiters" => at <= self.waiters_of_peers,
            "renewal" | "held" => at <= self.holds_of_peers,
            _ => true,
        };
        kind != Kind::Peer || of_peers
    }

    /// How long a measurement of a workload is thought to take, of one contestant, once.
    pub(super) fn seconds_of_one(&self, workload: &str) -> f64 {
        let time = match workload {
            "pairs" | "tasks" => self.pairs,
            "hand-over" => self.contest,
            "hand-over-5ms" => self.contest_5ms,
            "waiting" => self.waiting + self.settling * 3,
            "renewal" => {
                self.holding / 2
                    + self.before_renewal
                    + self.renewal
                    + self.pairs * self.rounds as u32
            }
            _ => self.growth,
        };
        time.as_secs_f64() + BESIDE
    }

    /// How long what comes before is thought to take, of one contestant.
    pub(super) fn beforehand(&self) -> f64 {
        (self.exclusion + self.warming * 2).as_secs_f64() + 3.0 * BESIDE
    }

    /// With how many it is measured, and how often.
    fn points(&self, workload: &str) -> Vec<(u64, usize)> {
        let each = |counts: &[u64], times| counts.iter().map(|count| (*count, times)).collect();
        match workload {
            "pairs" | "hand-over" | "hand-over-5ms" | "tasks" => {
                vec![(0, Regime::ALL.len() * self.rounds)]
            }
            "waiting" => vec![(0, 1)],
            "renewal" => each(&self.holds, 1),
            "waiters" => each(&self.waiters, self.growth_rounds),
            "processes" => each(&self.growing_processes, self.growth_rounds),
            _ => Vec::new(), // beside another
        }
    }

    /// How long all that is wanted is thought to take, of one contestant.
    pub(super) fn seconds(&self, kind: Kind, wants: impl Fn(&str) -> bool) -> f64 {
        let seconds = |workload: &str| {
            let mut points = self.points(workload);
            points.retain(|(at, _)| self.is_for(kind, workload, *at, Regime::TwoCores));
            let times: usize = points.iter().map(|(_, times)| times).sum();
            times as f64 * self.seconds_of_one(workload)
        };
        WORKLOADS.iter().map(|known| known.id).filter(|id| wants(id)).map(seconds).sum()
    }

    /// A run that only shows that everything works.
    #[must_use]
    pub(super) fn smoke() -> Self {
        Self {
            rounds: 1,
            processes: 2,
            pairs: ms(10),
            contest: ms(30),
            contest_5ms: ms(30),
            exclusion: ms(200),
            warming: ms(10),
            settling: ms(50),
            waiting: ms(50),
            waiters_waiting: 4,
            holds: vec![10],
            holding: ms(1_000),
            before_renewal: ms(0),
            renewal: ms(100),
            growth_rounds: 1,
            growth: ms(30),
            waiters: vec![4],
            hand_overs_seen: 1,
            stays_put: false,
            glances_at_peers: true,
            growing_processes: vec![2],
            ..Self::full(1)
        }
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
