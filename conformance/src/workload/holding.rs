//! A hold from its grant to its end: writes, losses, releases.

use std::time::Duration;

use lockwright_core::{BootInstant, Mode};

use crate::case::Failure;
use crate::history::journal::Event;

use super::held::{Held, Holding};
use super::process::Process;
use super::random::Random;

/// How a hold ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// `release()`, and its answer.
    Release,
    /// The guard is dropped.
    Drop,
    /// `release()`, whose future is dropped after this time.
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

/// For how long a hold is wanted: mostly some milliseconds, now and then long enough to be renewed.
pub(super) fn time(random: &mut Random, ttl: Duration) -> Duration {
    if random.one_in(10) {
        random.time(ttl / 3, ttl * 3 / 2)
    } else {
        random.time(Duration::from_millis(1), Duration::from_millis(30))
    }
}

impl Process {
    /// Holds for `time` or until a loss, and writes to the registers in that time. After a loss it writes late.
    /// Returns whether all are still held.
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

    /// Ends holds, which may be lost.
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

    /// Writes after a loss: at once, and when the next holder may have written.
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

    /// Writes to the register, after the hold was checked. Readers share their fences, and permits have none,
    /// so that only exclusive holders write.
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
