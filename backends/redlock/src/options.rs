//! What can be set about a quorum.

use std::time::Duration;

use lockwright_core::Clock;

/// What can be set about a quorum, beside its nodes.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) largest_ttl: Duration,
    pub(crate) clock: Clock,
    pub(crate) jitter_seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node_timeout: None,
            largest_ttl: Duration::from_secs(60),
            clock: Clock::boot(),
            jitter_seed: None,
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
}
