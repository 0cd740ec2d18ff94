use std::time::Duration;

/// The rules for a run. By default, all apply except `longest_wait` and `loss_allowance`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Conflicting holds never overlap, and held permits never exceed the last granted request's
    /// size.
    pub exclusion: bool,
    /// Only readers share a fence. A hold's fence is at least that of each hold granted before its
    /// request. With `exclusion`, an exclusive hold's fence is at least that of each exclusive hold
    /// that ended before its grant.
    pub fences: bool,
    /// The longest allowed wait while the lock has no holder.
    pub longest_wait: Option<Duration>,
    /// Faults that prevent grants, during which waiting doesn't count.
    pub excusing_faults: Vec<String>,
    /// How long before the deadline a loss report is due.
    pub loss_margin: Duration,
    /// How long a process may run between a loss report's due time and the next grant without a
    /// report. Without a next grant, a late report suffices. `None` skips this check, for clients
    /// that notice a loss only at their next check.
    pub loss_allowance: Option<Duration>,
    /// True if a run must show contention, a hand-over, and each fault's effect. With `fences`, the
    /// register must also refuse a late write of each process paused beyond its hold's deadline.
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
