//! What a backend promises, as data. Code and tests ask the profile, never for a backend's name.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

use crate::mode::Mode;

/// What a backend promises, and the numbers that the client needs to know of it.
///
/// Begin with [`Profile::new`], which promises nothing but exclusive locks within one process, and
/// set what the fault tests show. Every field that is a promise is named after what holds when it
/// is `true` or present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// The backend's name, with its mode where it has several: `redis`, `postgres-lease`.
    pub backend: &'static str,
    /// Which modes it has.
    pub modes: Modes,
    /// How far its locks reach.
    pub reach: Reach,
    /// What its fences promise.
    pub fencing: Fencing,
    /// In which order waiters of different clients are granted.
    pub order: Order,
    /// How a waiter learns that a lock is free.
    pub wake_up: WakeUp,
    /// The faults that mutual exclusion survives.
    pub survives: Faults,
    /// Whether a release of an unanswered claim keeps a late duplicate of it from being granted.
    pub tombstones: bool,
    /// Whether a hold can be broken, at once or by letting it run out.
    pub breakable: bool,
    /// Whether a hold can move to another process.
    pub tickets: bool,
    /// Whether an acquire with a limit blocks in the server: then the client gives it until the
    /// limit to answer, where it otherwise gives up on an answer that could no longer be of use.
    pub blocks: bool,
    /// The TTLs that it takes.
    #[serde(skip)]
    pub ttl: RangeInclusive<Duration>,
    /// How many holds are renewed in one call at most.
    pub renew_batch: usize,
    /// How often a waiter asks, when nothing wakes it.
    pub slow_poll: Duration,
}

impl Profile {
    /// The longest TTL that the client lets through, whatever a backend could take: 30 days.
    pub const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// The TTLs that a client takes for this backend.
    pub(crate) fn ttl_range(&self) -> RangeInclusive<Duration> {
        *self.ttl.start()..=Self::LONGEST_TTL.min(*self.ttl.end())
    }

    /// Exclusive locks inside one process, without fences, polled each 100 ms: the least that a
    /// backend can be.
    pub const fn new(backend: &'static str) -> Self {
        Self {
            backend,
            modes: Modes { exclusive: true, shared: false, permits: false },
            reach: Reach::Process,
            fencing: Fencing::None,
            order: Order::None,
            wake_up: WakeUp::Poll,
            survives: Faults::NONE,
            tombstones: false,
            breakable: false,
            tickets: false,
            blocks: false,
            ttl: Duration::from_millis(50)..=Self::LONGEST_TTL,
            renew_batch: 100,
            slow_poll: Duration::from_millis(100),
        }
    }
}

/// The modes that a backend has.
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
    /// Whether `mode` is among them.
    pub const fn contains(self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.exclusive,
            Mode::Shared => self.shared,
            Mode::Permits { .. } => self.permits,
        }
    }
}

/// How far a lock reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The tasks of one process.
    Process,
    /// The processes of one machine.
    Machine,
    /// Every machine that reaches the server.
    Network,
}

/// What fences promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// There are none, or they promise nothing.
    None,
    /// They grow for ever, unless data are lost **and** the server's clock steps back past them.
    Clocked,
    /// They grow for ever as long as the data live.
    Strict,
}

/// The order in which waiters of different clients are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// None is promised.
    None,
    /// First come, first served.
    Fifo,
}

/// How a waiter learns that a lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakeUp {
    /// It asks now and then.
    Poll,
    /// It is told.
    Push,
}

/// A fault of the world around a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A client dies.
    ClientCrash,
    /// A client is cut off from the server.
    Partition,
    /// The server restarts with its data.
    ServerRestart,
    /// The server comes back without its data.
    ServerDataLoss,
    /// Another server takes over.
    Failover,
    /// Fewer than half of the servers are lost.
    MinorityLoss,
    /// The server's wall clock steps.
    ServerClockStep,
}

impl Fault {
    /// All of them.
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
    /// No fault.
    pub const NONE: Self = Self(0);

    /// These faults.
    pub const fn of(faults: &[Fault]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < faults.len() {
            bits |= 1 << faults[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `fault` is among them.
    pub const fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u16) != 0
    }
}

impl From<Faults> for Vec<Fault> {
    fn from(faults: Faults) -> Self {
        Fault::ALL.into_iter().filter(|fault| faults.contains(*fault)).collect()
    }
}
