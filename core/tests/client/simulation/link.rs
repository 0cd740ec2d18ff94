//! One client's connection to the server, with failing requests and answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockwright_core::Clock;

use super::chance::Chance;
use super::server::Server;
use crate::support::{Fate, Faulty, Op, UNAVAILABLE};

const TROUBLES: [fn(Duration) -> Fate; 11] = [
    |time| Fate::DelayAnswer(time / 6),
    |time| Fate::DelayAnswer(time * 2),
    Fate::Slow,
    Fate::DelayRequest,
    |_| Fate::LoseAnswer,
    |_| Fate::DoAndHang,
    |_| Fate::Hang,
    |_| UNAVAILABLE,
    |_| Fate::Panic,
    |_| Fate::DoAndPanic,
    |_| Fate::Yield,
];

/// Connects to the server. `trouble` is the percentage of requests that fail.
pub(super) fn connect(
    server: &Arc<Server>,
    chance: &Arc<Chance>,
    clock: &Clock,
    trouble: u64,
    is_cut: &Arc<AtomicBool>,
) -> Faulty {
    let link = Faulty::new(server.clone(), clock.clone());
    let (server, chance, is_cut) = (Arc::clone(server), Arc::clone(chance), Arc::clone(is_cut));
    link.decide(move |op| {
        if server.is_calm.load(Ordering::SeqCst) {
            return Fate::Pass;
        }
        if is_cut.load(Ordering::SeqCst) {
            return Fate::Hang;
        }
        if chance.below(100) >= trouble {
            return Fate::Pass;
        }
        let fate = chance.of(&TROUBLES);
        match fate(chance.millis_below(3_000)) {
            // The client doesn't catch a panic of `break_lock`.
            Fate::Panic | Fate::DoAndPanic if op == Op::Break => Fate::Pass,
            fate => fate,
        }
    });
    link
}
