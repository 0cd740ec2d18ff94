use std::time::Duration;

use crate::WORKLOADS;
use crate::results::{Kind, Regime};

/// The estimated overhead of a measurement, in seconds.
const BESIDE: f64 = 0.3;

#[derive(Debug, Clone)]
pub(super) struct Pace {
    pub(super) rounds: usize,
    pub(super) processes: usize,
    pub(super) tasks: usize,
    pub(super) pairs: Duration,
    pub(super) contest: Duration,
    pub contest_5ms: Duration,
    pub(super) exclusion: Duration,
    pub(super) warming: Duration,
    pub(super) settling: Duration,
    /// How long waiters are measured: a third of the TTL, in which all periodic work happens.
    pub(super) waiting: Duration,
    pub(super) waiters_waiting: usize,
    pub(super) holds: Vec<u64>,
    pub(super) holds_of_peers: u64,
    pub(super) holding: Duration,
    /// The pause before renewals are measured: half the renewal interval, which puts a batch in the
    /// middle of the measurement.
    pub(super) before_renewal: Duration,
    /// How long renewals are measured: a third of the TTL, in which each hold is renewed once.
    pub(super) renewal: Duration,
    pub(super) ttl: Duration,
    pub(super) growth_rounds: usize,
    pub(super) growth: Duration,
    pub(super) waiters: Vec<u64>,
    /// The maximum for peers, because a thousand polling waiters end only after minutes.
    pub(super) waiters_of_peers: u64,
    pub(super) hand_overs_seen: usize,
    /// If true, processes aren't pinned, and peers run only `pairs` and `hand-over`, in one regime.
    pub(super) is_smoke: bool,
    /// The counts for the workload `processes`, without peers: the memory of dozens of virtual
    /// machines would dominate.
    pub(super) growing_processes: Vec<u64>,
}

impl Pace {
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
            is_smoke: false,
            growing_processes: vec![2, 4, 16, 32],
        }
    }

    pub(super) fn is_for(&self, kind: Kind, workload: &str, at: u64, regime: Regime) -> bool {
        let of_peers = match workload {
            "pairs" | "hand-over" if self.is_smoke => regime == Regime::TwoCores,
            _ if self.is_smoke => false,
            "processes" => false,
            "waiters" => at <= self.waiters_of_peers,
            "renewal" | "held" => at <= self.holds_of_peers,
            _ => true,
        };
        kind != Kind::Peer || of_peers
    }

    pub(super) fn seconds_of_one(&self, workload: &str) -> f64 {
        let time = match workload {
            "pairs" | "tasks" => self.pairs,
            "hand-over" => self.contest,
            "hand-over-5ms" => self.contest_5ms,
            "waiting" => self.waiting + self.settling * 3,
            "renewal" => {
                let pairs = self.pairs * self.rounds as u32;
                self.holding / 2 + self.before_renewal + self.renewal + pairs
            }
            _ => self.growth,
        };
        time.as_secs_f64() + BESIDE
    }

    pub(super) fn beforehand(&self) -> f64 {
        (self.exclusion + self.warming * 2).as_secs_f64() + 3.0 * BESIDE
    }

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
            _ => Vec::new(), // part of another workload
        }
    }

    pub(super) fn seconds(&self, kind: Kind, wants: impl Fn(&str) -> bool) -> f64 {
        let seconds = |workload: &str| {
            let mut points = self.points(workload);
            points.retain(|(at, _)| self.is_for(kind, workload, *at, Regime::TwoCores));
            let times: usize = points.iter().map(|(_, times)| times).sum();
            times as f64 * self.seconds_of_one(workload)
        };
        WORKLOADS.iter().map(|known| known.id).filter(|id| wants(id)).map(seconds).sum()
    }

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
            is_smoke: true,
            growing_processes: vec![2],
            ..Self::full(1)
        }
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
