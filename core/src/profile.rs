use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use crate::duration::shown;
use crate::{Error, Mode, Result};

/// A backend's properties, confirmed by fault tests. Query these, not the backend's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The backend's name and variant: `redis`, `postgres-lease`.
    pub backend: &'static str,
    /// The supported modes.
    pub modes: Modes,
    /// A lock's scope.
    pub scope: Scope,
    /// How reliably fences grow.
    pub fencing: Fencing,
    /// The order of waiters.
    pub order: Order,
    /// How waiters are woken.
    pub wake_up: WakeUp,
    /// The faults that never lead to two holders.
    pub survives: Faults,
    /// True if the release of an unanswered claim prevents its later grant.
    pub tombstones: bool,
    /// True if an operator can break a hold.
    pub breakable: bool,
    /// True if the backend sends [`Event::Recall`](crate::Event::Recall), which
    /// [`keep_warm`](crate::Request::keep_warm) needs.
    pub recalls: bool,
    /// True if a hold can be transferred by a [`Ticket`](crate::Ticket).
    pub tickets: bool,
    /// True if a renewal can set any TTL, so that a lock stays held after its release. Needed by
    /// [`at_least`](crate::Request::at_least) and [`once_per`](crate::Request::once_per).
    pub keeps_after_release: bool,
    /// True if the server answers an acquire with [`Wait::Until`](crate::Wait::Until) only after
    /// the grant or the limit.
    pub blocks: bool,
    /// True if acquiring a free lock takes fewer requests when the first one queues the claim. The
    /// client then queues each claim that may wait.
    #[serde(skip)]
    pub queues_at_once: bool,
    /// The supported TTLs.
    #[serde(skip)]
    pub ttl: RangeInclusive<Duration>,
    /// The time within which the backend wakes a pending request's task, even if the server is
    /// silent; `None` if unlimited.
    #[serde(skip)]
    pub answer_limit: Option<Duration>,
    /// The largest number of holds in one renewal request.
    pub renew_batch: usize,
    /// The longest interval at which a waiter retries without a wake-up.
    pub slow_poll: Duration,
}

impl Profile {
    /// The longest TTL: 30 days.
    pub const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    pub(crate) fn ttl_range(&self) -> RangeInclusive<Duration> {
        *self.ttl.start()..=Self::LONGEST_TTL.min(*self.ttl.end())
    }

    /// Checks that the backend takes this TTL, which the error calls `what`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the range.
    pub fn check_ttl(&self, what: &str, ttl: Duration) -> Result<()> {
        let range = self.ttl_range();
        if range.contains(&ttl) {
            return Ok(());
        }
        Err(Error::invalid_input(format!(
            "{what} of {} is out of range; this backend takes {} to {}",
            shown(ttl),
            shown(*range.start()),
            shown(*range.end())
        )))
    }

    /// Returns a minimal profile: exclusive locks in one process, without fences, polled at least
    /// every 100 ms.
    pub const fn new(backend: &'static str) -> Self {
        Self {
            backend,
            modes: Modes { exclusive: true, shared: false, permits: false },
            scope: Scope::Process,
            fencing: Fencing::None,
            order: Order::None,
            wake_up: WakeUp::Poll,
            survives: Faults::NONE,
            tombstones: false,
            breakable: false,
            recalls: false,
            tickets: false,
            keeps_after_release: false,
            blocks: false,
            queues_at_once: false,
            ttl: Duration::from_millis(50)..=Self::LONGEST_TTL,
            answer_limit: None,
            renew_batch: 100,
            slow_poll: Duration::from_millis(100),
        }
    }
}

/// A set of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Modes {
    /// [`Mode::Exclusive`].
    pub exclusive: bool,
    /// [`Mode::Shared`].
    pub shared: bool,
    /// [`Mode::Permits`].
    pub permits: bool,
}

impl Modes {
    /// Returns whether `mode` is in the set.
    pub const fn contains(self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.exclusive,
            Mode::Shared => self.shared,
            Mode::Permits { .. } => self.permits,
        }
    }
}

/// The clients that a lock can coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The tasks of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// Every machine that reaches the server.
    Network,
}

/// How reliably fences grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// No fences, or fences without a guarantee.
    None,
    /// Fences grow, unless the server loses its data **and** its clock steps back.
    Clocked,
    /// Fences grow as long as the server keeps its data.
    Strict,
}

/// The order in which waiters of different clients get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// No guaranteed order.
    None,
    /// First come, first served, but for [local turns](crate::Builder::local_turns).
    Fifo,
}

/// How a waiter notices that a lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeUp {
    /// The waiter polls.
    Poll,
    /// The server notifies the waiter.
    Push,
}

/// A fault that a lock may survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A client crashes.
    ClientCrash,
    /// A client is partitioned from the server.
    Partition,
    /// The server restarts with its data.
    ServerRestart,
    /// The server restarts without its data.
    ServerDataLoss,
    /// Another server takes over.
    Failover,
    /// A minority of the servers is lost.
    MinorityLoss,
    /// The server's wall clock steps.
    ServerClockStep,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 7] = [
        Self::ClientCrash,
        Self::Partition,
        Self::ServerRestart,
        Self::ServerDataLoss,
        Self::Failover,
        Self::MinorityLoss,
        Self::ServerClockStep,
    ];
}

/// A set of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "Vec<Fault>")]
pub struct Faults(u16);

impl Faults {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Creates a set of these faults.
    pub const fn of(faults: &[Fault]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < faults.len() {
            bits |= 1 << faults[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Returns whether `fault` is in the set.
    pub const fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }
}

impl From<Faults> for Vec<Fault> {
    fn from(faults: Faults) -> Self {
        Fault::ALL.into_iter().filter(|fault| faults.contains(*fault)).collect()
    }
}
