//! The rules for a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The rules for a run. The default has all of them, without limits for waiting and reports of losses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Conflicting holds never overlap, and permits never exceed the semaphore's number.
    pub exclusion: bool,
    /// Only readers share a fence.
    pub fences: bool,
    /// No hold has a smaller fence than one granted before its request. With `exclusion`, no exclusive hold has a
    /// smaller fence than a hold that ended before its grant.
    pub strict_order_of_fences: bool,
    /// The longest wait without a holder.
    pub longest_wait: Option<Duration>,
    /// Faults that prevent grants. Their time doesn't count as waiting.
    pub excusing_faults: Vec<String>,
    /// The time before a deadline at which a loss is reported.
    pub loss_margin: Duration,
    /// How long a process may run after a report of an exclusive hold's loss is due, before the next grant returns.
    /// Without a next grant, the report must only exist. `None` for clients that notice a loss at their next check.
    pub loss_allowance: Option<Duration>,
    /// True if a run must show contention, a hand-over, and each fault's effect. `strict_order_of_fences` adds a
    /// refused late write of each process paused beyond its deadline.
    pub must_show: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            exclusion: true,
            fences: true,
            strict_order_of_fences: true,
            longest_wait: None,
            excusing_faults: Vec::new(),
            loss_margin: Duration::ZERO,
            loss_allowance: None,
            must_show: true,
        }
    }
}
