//! The rules for a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The rules for a run. The default has all of them, and no limits for waiting and for reports of losses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Conflicting holds are never valid at once, and permits never exceed the semaphore's number.
    pub exclusion: bool,
    /// No two holds of a name share a fence, except those of readers.
    pub fences: bool,
    /// No hold has a smaller fence than a hold granted before its request. With `exclusion`, no exclusive hold has
    /// a smaller fence than one that ended before its grant.
    pub strict_order_of_fences: bool,
    /// The longest time without a holder while a client waits.
    pub longest_wait: Option<Duration>,
    /// The faults that prevent grants. Their time doesn't count as waiting.
    pub excusing_faults: Vec<String>,
    /// The time before a deadline at which the loss is reported.
    pub loss_margin: Duration,
    /// If set, a process that ran for longer since a report was due must have reported the loss of an exclusive
    /// hold when the next grant returns. Without a next grant, the report must only exist. `None` for clients that
    /// notice a loss at their next check.
    pub loss_allowance: Option<Duration>,
    /// True if a run must show contention, a hand-over, and an effect of each fault. With
    /// `strict_order_of_fences`, it also needs a refused late write of each process that was paused beyond its deadline.
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
