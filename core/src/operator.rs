use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{BootInstant, Error, Fence, Identity, LockName, Mode, Result, Token};

/// A hold, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// The token; `None` if another library holds the lock.
    pub token: Option<Token>,
    /// The holder's identity, if known.
    pub identity: Option<Identity>,
    /// The mode.
    pub mode: Mode,
    /// The hold's first fence, if known. After a hand-over, its guard's is larger.
    pub fence: Option<Fence>,
    /// The time of the grant or of the last transfer, by the server's clock, correct to about a
    /// second. `None` if unknown, or ahead of this machine's clock.
    ///
    /// - Redis, Redlock, and the mode `lease`: only for exclusive holds, and too late if the name's
    ///   fences were ahead of the clock. On Redlock, the clock is the holder's.
    /// - The modes `session` and `row`: the time of the hold's record, and not for a broken hold.
    #[serde(default)]
    pub since: Option<SystemTime>,
    /// The time until expiry; `None` if unknown, or if the hold never expires.
    pub remaining: Option<Duration>,
    /// True for another library's hold that never expires.
    #[serde(default)]
    pub endless: bool,
    /// The operator and the reason, if the hold is broken.
    pub broken: Option<String>,
}

impl Holder {
    /// Creates an exclusive holder.
    pub const fn new(token: Option<Token>) -> Self {
        Self {
            token,
            identity: None,
            mode: Mode::Exclusive,
            fence: None,
            since: None,
            remaining: None,
            endless: false,
            broken: None,
        }
    }

    /// Sets the fence, and in exclusive mode derives `since` from it. Set the mode first. Only for
    /// a backend whose fences are the time of the grant in µs since 1970, or larger.
    pub fn set_fence_and_since(&mut self, fence: Option<Fence>) {
        self.fence = fence;
        self.since = None;
        if let Some(fence) = fence.filter(|_| self.mode == Mode::Exclusive) {
            self.set_since(Duration::from_micros(fence.get()));
        }
    }

    /// Sets `since` to this duration after the Unix epoch; to `None` if that is ahead of this
    /// machine's clock.
    pub fn set_since(&mut self, after_1970: Duration) {
        let time = UNIX_EPOCH.checked_add(after_1970);
        self.since = time.filter(|time| *time <= SystemTime::now());
    }

    /// Sets `since` from the instant of the grant by the machine's boot clock.
    pub fn set_granted(&mut self, granted: BootInstant, now: BootInstant) {
        self.since = SystemTime::now().checked_sub(now.saturating_since(granted));
    }
}

/// A name and its holders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The name.
    pub name: LockName,
    /// The holders.
    pub holders: Vec<Holder>,
    /// The number of queued claims, if known.
    pub waiters: Option<u64>,
    /// The highest reserved fence, if known.
    pub fence: Option<Fence>,
}

impl Inspection {
    /// Creates the inspection of a free name.
    pub const fn free(name: LockName) -> Self {
        Self { name, holders: Vec::new(), waiters: None, fence: None }
    }

    /// Returns the number of free permits; `None` unless the name is in use as a semaphore. Of its
    /// holders' sizes, the largest counts. A request for them can still wait: if its own size is
    /// smaller, or if an earlier waiter can't be granted.
    pub fn free_permits(&self) -> Option<u32> {
        let permits = |holder: &Holder| match holder.mode {
            Mode::Permits { count, of } => Some((count, of)),
            _ => None,
        };
        let of = self.holders.iter().filter_map(permits).map(|(_, of)| of).max()?;
        let counts = self.holders.iter().filter_map(permits).map(|(count, _)| count);
        Some(counts.fold(of, u32::saturating_sub))
    }
}

/// The start of a list's next page, for the backend that created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The held names.
    pub names: Vec<Inspection>,
    /// The start of the next page; `None` after the last. Even an empty page may have one.
    pub next: Option<Cursor>,
}

/// The hold to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakTarget {
    /// The hold with this token.
    Token(Token),
    /// All present holds.
    Any,
}

/// How a hold is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakMode {
    /// The hold can't be renewed. The name is free when the hold expires, so exclusion is kept.
    RunOut,
    /// The name is free at once. The old holder and the next may overlap until the old one is
    /// notified.
    Now,
}

/// The outcome of a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// There was no hold to break.
    NotHeld,
    /// The hold expires after this time.
    RunsOut(Duration),
    /// The name is free, but the old holder may use its hold for this time.
    Freed(Duration),
}

impl Broken {
    /// Adds the outcome for the name's next hold. Of two times, the longer one counts.
    ///
    /// # Errors
    /// The next hold's error; [`Indeterminate`](crate::ErrorKind::Indeterminate) if an earlier hold
    /// was broken.
    pub fn and(self, other: Result<Self>) -> Result<Self> {
        match (self, other) {
            (Self::NotHeld, other) => other,
            (_, Err(error)) => {
                let message = "some of the holders were broken, and one couldn't be; look again";
                Err(Error::indeterminate(message).with_source(error))
            }
            (Self::RunsOut(one), Ok(Self::RunsOut(other))) => Ok(Self::RunsOut(one.max(other))),
            (Self::Freed(one), Ok(Self::Freed(other))) => Ok(Self::Freed(one.max(other))),
            (one, Ok(Self::NotHeld)) => Ok(one),
            (_, other) => other,
        }
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Information only.
    Note,
    /// A guarantee is weaker than it appears.
    Warning,
    /// The lock isn't safe.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A problem that the doctor found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// A stable name, such as `eviction-policy`.
    pub code: &'static str,
    /// The problem.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// How to fix it.
    pub fix: String,
}

/// The result of [`sweep`](crate::DistributedLock::sweep).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SweepReport {
    /// The number of removed records.
    pub rows: u64,
    /// True if more records can be removed.
    pub more: bool,
}
