use std::time::Duration;

use crate::results::{Kind, Regime};

pub(super) const TTL: Duration = Duration::from_secs(15);

pub(super) const TASKS: usize = 8;

/// A thousand polling waiters of a peer would end only after minutes.
const WAITERS_OF_PEERS: u64 = 96;

const HOLDS_OF_PEERS: u64 = 1_000;

#[derive(Debug, Clone)]
pub(super) struct Pace {
    pub(super) rounds: usize,
    pub(super) processes: usize,
    pub(super) pairs: Duration,
    pub(super) contest: Duration,
    pub(super) contest_5ms: Duration,
    pub(super) exclusion: Duration,
    pub(super) warming: Duration,
    pub(super) settling: Duration,
    /// A third of the TTL, in which all periodic work happens.
    pub(super) waiting: Duration,
    pub(super) waiters_waiting: usize,
    pub(super) holds: Vec<u64>,
    pub(super) holding: Duration,
    /// Half the renewal interval, which puts the holds' renewal in the middle of the measurement.
    pub(super) before_renewal: Duration,
    /// A third of the TTL, in which each hold is renewed once.
    pub(super) renewal: Duration,
    pub(super) growth_rounds: usize,
    pub(super) growth: Duration,
    pub(super) waiters: Vec<u64>,
    pub(super) hand_overs_seen: usize,
    /// Processes aren't pinned, and peers run only `pairs` and `hand-over`, in one regime.
    pub(super) is_smoke: bool,
    /// The numbers of processes in the workload `processes`. Peers skip it: dozens of JVMs and Node
    /// processes need too much memory.
    pub(super) growing_processes: Vec<u64>,
}

impl Pace {
    pub(super) fn full(rounds: usize) -> Self {
        Self {
            rounds,
            processes: crate::workload::PROCESSES,
            pairs: ms(200),
            contest: ms(500),
            contest_5ms: ms(600),
            exclusion: ms(1_000),
            warming: ms(1_500),
            settling: ms(1_000),
            waiting: ms(5_000),
            waiters_waiting: 100,
            holds: vec![1_000, 10_000, 100_000],
            holding: ms(20_000),
            before_renewal: ms(2_500),
            renewal: ms(5_000),
            growth_rounds: rounds.min(3),
            growth: ms(500),
            waiters: vec![2, 8, 96, 1_000],
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
            "waiters" => at <= WAITERS_OF_PEERS,
            "renewal" | "held" => at <= HOLDS_OF_PEERS,
            _ => true,
        };
        kind != Kind::Peer || of_peers
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
        }
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
