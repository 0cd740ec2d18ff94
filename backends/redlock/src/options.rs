use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockwright_core::{Clock, Error, Result};

use crate::{PROFILE_NAME, SHORTEST_TTL};

/// Options of a quorum.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) largest_ttl: Duration,
    pub(crate) clock: Clock,
    pub(crate) jitter_seed: Option<u64>,
    pub(crate) wall_clock: WallClock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_timeout: None,
            largest_ttl: Duration::from_secs(60),
            clock: Clock::boot(),
            jitter_seed: None,
            wall_clock: WallClock::system(),
        }
    }
}

impl Options {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a round waits for a node. TTLs must be at least twice this value. Default: TTL
    /// / 200, from 5 ms to 50 ms.
    #[must_use]
    pub fn node_timeout(mut self, limit: Duration) -> Self {
        self.node_timeout = Some(limit);
        self
    }

    /// Sets the largest TTL, which must be equal for all clients; 60 s by default. After a node loses
    /// its data, it abstains this long.
    #[must_use]
    pub fn largest_ttl(mut self, ttl: Duration) -> Self {
        self.largest_ttl = ttl;
        self
    }

    /// Sets the clock that times the wait of new nodes. For tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the seed of the jitter, for repeatable simulations.
    #[must_use]
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.jitter_seed = Some(seed);
        self
    }

    /// Sets the clock, in µs, for candidate fences. For simulations.
    #[doc(hidden)]
    #[must_use]
    pub fn wall_clock(mut self, micros: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.wall_clock = WallClock(Arc::new(micros));
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refused =
            |problem: String| Err(Error::invalid_config(problem).with_backend(PROFILE_NAME));
        if self.node_timeout.is_some_and(|limit| limit.is_zero()) {
            return refused("the node time-out is zero, so that no node could vote".to_owned());
        }
        let shortest = self.shortest_ttl();
        if self.largest_ttl < shortest {
            return refused(format!(
                "the largest TTL is {:?}, which is below the shortest permitted TTL, \
                 {shortest:?}; set a node time-out far below the TTLs in use",
                self.largest_ttl
            ));
        }
        Ok(())
    }

    /// Returns the shortest TTL within which a round and the write of its fence always end.
    pub(crate) fn shortest_ttl(&self) -> Duration {
        self.node_timeout.map_or(SHORTEST_TTL, |limit| SHORTEST_TTL.max(limit.saturating_mul(2)))
    }

    pub(crate) fn patience(&self, ttl: Duration) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(5);
        const LONGEST: Duration = Duration::from_millis(50);
        self.node_timeout.unwrap_or_else(|| (ttl / 200).clamp(SHORTEST, LONGEST))
    }
}

#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    fn system() -> Self {
        Self(Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        }))
    }

    pub(crate) fn micros(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_two_hundredth_of_the_ttl_within_limits() {
        let options = Options::new();
        for (ttl, patience) in [(100, 5), (1_000, 5), (4_000, 20), (30_000, 50)] {
            let patience = Duration::from_millis(patience);
            assert_eq!(options.patience(Duration::from_millis(ttl)), patience);
        }
        let set = options.node_timeout(Duration::from_millis(200));
        assert_eq!(set.patience(Duration::from_secs(1)), Duration::from_millis(200));
    }
}
