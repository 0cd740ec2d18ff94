//! The latest transaction that this client saw.

use std::sync::atomic::{AtomicI64, Ordering};

use lockwright_core::Fence;

/// The highest fence, and so the highest transaction, that was given to this client. Should the
/// ensemble be at an earlier one, it was given older data.
///
/// Nothing that is kept on the ensemble could tell: it goes back too. So a client that was started
/// afterwards sees nothing; and neither does one of before if the servers' epoch, which counts their
/// leaders, was no lower in the older data: then transactions go on above all that were.
#[derive(Debug, Default)]
pub(crate) struct Seen(AtomicI64);

impl Seen {
    /// A hold was granted, or stands in a queue.
    pub(crate) fn note(&self, fence: Fence) {
        self.zxid(i64::try_from(fence.get()).unwrap_or(i64::MAX));
    }

    fn zxid(&self, zxid: i64) -> i64 {
        self.0.fetch_max(zxid, Ordering::Relaxed)
    }

    /// The ensemble is at this transaction; answers what was seen if that is later.
    pub(crate) fn went_back(&self, zxid: i64) -> Option<i64> {
        let seen = self.zxid(zxid);
        (seen > zxid).then_some(seen)
    }
}
