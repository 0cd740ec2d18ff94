use std::time::Duration;

/// The rules for a run. By default, all apply except the limits for waiting and loss reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Conflicting holds never overlap, and held permits never exceed the semaphore's size.
    pub exclusion: bool,
    /// Only readers share a fence. A request gets no smaller fence than a hold granted before the
    /// request. With `exclusion`, an exclusive grant has no smaller fence than an exclusive hold
    /// that ended before the grant.
    pub fences: bool,
    /// The longest allowed wait while the lock has no holder.
    pub longest_wait: Option<Duration>,
    /// Faults that prevent grants. Waiting during such a fault doesn't count.
    pub excusing_faults: Vec<String>,
    /// How long before the deadline a loss report is due.
    pub loss_margin: Duration,
    /// A process must report a loss before the next grant, unless it ran for at most this time
    /// since the report was due. Without a next grant, a late report suffices. `None` is for
    /// clients that notice a loss only at their next check.
    pub loss_allowance: Option<Duration>,
    /// True if a run must show contention, a hand-over, and each fault's effect. With
    /// `fences`, it must also show a refused late write of each process paused
    /// beyond its hold's deadline.
    pub must_show: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            exclusion: true,
            fences: true,
            longest_wait: None,
            excusing_faults: Vec::new(),
            loss_margin: Duration::ZERO,
            loss_allowance: None,
            must_show: true,
        }
    }
}
