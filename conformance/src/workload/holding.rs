//! The use of a hold from its grant to its end: writes, losses and releases.

use std::time::Duration;

use lockwright_core::{BootInstant, Mode};

use crate::case::Failure;
use crate::history::journal::Event;

use super::held::{Held, Holding};
use super::process::Process;
use super::random::Random;

/// The way in which a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The holder calls `release()` and waits for the answer.
    Release,
    /// The holder drops the guard.
    Drop,
    /// The holder calls `release()` and drops its future after this time.
    DroppedRelease(Duration),
}

impl End {
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::Drop,
            _ => Self::Release,
        }
    }
}

/// Returns a random time for a hold: usually some milliseconds, sometimes long enough for a renewal.
pub(super) fn time(random: &mut Random, ttl: Duration) -> Duration {
    if random.one_in(10) {
        random.time(ttl / 3, ttl * 3 / 2)
    } else {
        random.time(Duration::from_millis(1), Duration::from_millis(30))
    }
}

impl Process {
    /// Keeps the holds for `time` or until one is lost, and writes to their registers. After a loss, makes late
    /// writes. Returns whether all are still held.
    pub(super) async fn hold(
        &self,
        holdings: &[Holding],
        time: Duration,
        random: &mut Random,
    ) -> Result<bool, Failure> {
        let until = self.clock.now() + time;
        let pause = (time / 3).clamp(Duration::from_millis(1), self.plan.ttl / 8);
        loop {
            for holding in holdings {
                let looked = self.clock.now();
                if !holding.is_valid() {
                    self.write_late(holdings, random).await?;
                    return Ok(false);
                }
                self.write(holding.held(), looked, false)?;
            }
            let left = until.saturating_since(self.clock.now());
            if left.is_zero() {
                return Ok(true);
            }
            self.sleep(left.min(pause)).await;
        }
    }

    /// Ends holds, some of which may already be lost.
    pub(super) async fn end(&self, holdings: Vec<Holding>, how: End) {
        for holding in holdings {
            match how {
                End::Drop => drop(holding.end()),
                End::Release => drop(holding.release().await),
                End::DroppedRelease(after) => {
                    let release = holding.release();
                    tokio::select! {
                        biased;
                        _ = release => {}
                        () = self.sleep(after) => {}
                    }
                }
            }
        }
    }

    /// Makes late writes after a loss: one at once, and one after the next holder may have written.
    async fn write_late(&self, holdings: &[Holding], random: &mut Random) -> Result<(), Failure> {
        self.write_lost(holdings)?;
        let later = random.time(Duration::from_millis(5), self.plan.ttl);
        self.sleep(later).await;
        self.write_lost(holdings)
    }

    fn write_lost(&self, holdings: &[Holding]) -> Result<(), Failure> {
        for holding in holdings {
            let looked = self.clock.now();
            if !holding.is_valid() {
                self.write(holding.held(), looked, true)?;
            }
        }
        Ok(())
    }

    /// Writes to the register after a check of the hold. Only exclusive holders write, because readers share fences
    /// and permits have none.
    fn write(&self, held: &Held, looked: BootInstant, late: bool) -> Result<(), Failure> {
        if held.mode() == Mode::Exclusive {
            let (token, fence) = (held.token(), held.fence());
            self.journal.write(Event::Writing { token, looked, late });
            let accepted = self.store.write(held.name(), fence)?;
            self.journal.write(Event::Wrote { token, fence, accepted, late });
        }
        Ok(())
    }
}
