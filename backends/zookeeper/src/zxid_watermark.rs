use std::sync::atomic::{AtomicI64, Ordering};

use lockwright_core::Fence;

/// The highest transaction id that this client saw. If the ensemble returns a lower id, older data
/// were restored.
///
/// Only a client that saw a higher id can detect that, and only if a leader was elected between the
/// backup and the restore. Otherwise the restored ensemble's ids are higher: ids begin with the
/// leader's epoch, and the restored ensemble elects a leader with a higher epoch.
#[derive(Debug, Default)]
pub(crate) struct ZxidWatermark(AtomicI64);

impl ZxidWatermark {
    pub(crate) fn note(&self, fence: Fence) {
        self.zxid(i64::try_from(fence.get()).unwrap_or(i64::MAX));
    }

    fn zxid(&self, zxid: i64) -> i64 {
        self.0.fetch_max(zxid, Ordering::Relaxed)
    }

    pub(crate) fn went_back(&self, zxid: i64) -> Option<i64> {
        let seen = self.zxid(zxid);
        (seen > zxid).then_some(seen)
    }
}
