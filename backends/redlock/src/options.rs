//! What can be set about a quorum.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockwright_core::Clock;

/// What can be set about a quorum, beside its nodes.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) largest_ttl: Duration,
    pub(crate) clock: Clock,
    pub(crate) jitter_seed: Option<u64>,
    pub(crate) wall_clock: WallClock,
}

/// What candidates for fences are taken from: microseconds since 1970.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// Microseconds since 1970, now.
    pub(crate) fn micros(&self) -> u64 {
        (self.0)()
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self(Arc::new(|| {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            // A clock before 1970 offers nothing: the counters on the nodes go on by themselves.
            since.map_or(0, |since| since.as_micros() as u64)
        }))
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_timeout: None,
            largest_ttl: Duration::from_secs(60),
            clock: Clock::boot(),
            jitter_seed: None,
            wall_clock: WallClock::default(),
        }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a round waits for a node. By default a two-hundredth of the TTL, at least 5 ms and
    /// at most 50 ms: far below the TTL, so that a node that hangs costs little of it. Set it on
    /// networks, or machines, where a round trip may take longer.
    #[must_use]
    pub fn node_timeout(mut self, limit: Duration) -> Self {
        self.node_timeout = Some(limit);
        self
    }

    /// The largest TTL that any client of these nodes may ask for; 60 s by default. It is a
    /// constant of the fleet: every client must set the same, and it is noted on the nodes. A node
    /// that lost its data doesn't vote for so long.
    #[must_use]
    pub fn largest_ttl(mut self, ttl: Duration) -> Self {
        self.largest_ttl = ttl;
        self
    }

    /// The clock by which a node that is new here is waited for. For tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where the jitter of retries begins, so that a simulation can be repeated. Random by default.
    #[must_use]
    pub fn jitter_seed(mut self, seed: u64) -> Self {
        self.jitter_seed = Some(seed);
        self
    }

    /// Where candidates for fences are taken from: microseconds since 1970, by this machine's wall
    /// clock if not set. For tests.
    #[must_use]
    pub fn wall_clock(mut self, micros: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.wall_clock = WallClock(Arc::new(micros));
        self
    }
}
