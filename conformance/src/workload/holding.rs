use std::time::Duration;

use lockwright_core::{BootInstant, Mode};

use crate::failure::Failure;
use crate::history::journal::Event;

use super::held::{Held, Holding};
use super::process::{Asked, Process};
use super::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Release,
    Drop,
    /// The future of the release is dropped after this time.
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

pub(super) fn time(random: &mut Random, ttl: Duration) -> Duration {
    if random.one_in(10) {
        random.time(ttl / 3, ttl * 3 / 2)
    } else {
        random.time(Duration::from_millis(1), Duration::from_millis(30))
    }
}

impl Process {
    /// Checks the holds and writes to their registers for `time`. After a loss, makes late writes
    /// and returns false.
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

    /// Repeats late writes until the registers refuse them. A register refuses only after the next
    /// holder's write. Without another writer, this process acquires the lock and writes.
    async fn write_late(&self, holdings: &[Holding], random: &mut Random) -> Result<(), Failure> {
        let ttl = self.plan.ttl;
        self.write_lost(holdings)?;
        self.sleep(random.time(Duration::from_millis(5), ttl)).await;
        let give_up = self.clock.now() + ttl;
        let mut accepted = self.write_lost(holdings)?;
        while !accepted.is_empty() && self.clock.now() < give_up {
            self.sleep(ttl / 8).await;
            accepted = self.write_lost(accepted)?;
        }
        for holding in &accepted {
            self.succeed(holding.held()).await?;
        }
        self.write_lost(accepted)?;
        Ok(())
    }

    fn write_lost<'a>(
        &self,
        holdings: impl IntoIterator<Item = &'a Holding>,
    ) -> Result<Vec<&'a Holding>, Failure> {
        let mut accepted = Vec::new();
        for holding in holdings {
            let looked = self.clock.now();
            if !holding.is_valid() && self.write(holding.held(), looked, true)? {
                accepted.push(holding);
            }
        }
        Ok(accepted)
    }

    async fn succeed(&self, lost: &Held) -> Result<(), Failure> {
        let (client, name) = (self.client(), lost.name());
        let request = client.locks.mutex(name).wait_for(self.plan.ttl * 3);
        let request = async { request.acquire().await.map(|guard| Some(Held::Guard(guard))) };
        let asked = Asked { name, mode: Mode::Exclusive, waits: true, owner: None };
        if let Some(next) = self.request(&client, asked, request).await? {
            let looked = self.clock.now();
            if next.is_valid() {
                self.write(next.held(), looked, false)?;
            }
            self.end(vec![next], End::Release).await;
        }
        Ok(())
    }

    /// Only exclusive holders write: readers share fences, and permits' ids have no order.
    fn write(&self, held: &Held, looked: BootInstant, late: bool) -> Result<bool, Failure> {
        if held.mode() != Mode::Exclusive {
            return Ok(false);
        }
        let (token, fence) = (held.token(), held.fence());
        self.journal.write(Event::Writing { token, looked, late });
        let accepted = self.store.write(held.name(), fence)?;
        self.journal.write(Event::Wrote { token, fence, accepted, late });
        Ok(accepted)
    }
}
