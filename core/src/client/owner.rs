use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// A key for reentrancy: requests with the same owner share a hold. Owners are independent of
/// threads and tasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(NonZeroU64);

impl Owner {
    /// Creates a unique owner.
    #[expect(clippy::new_without_default, reason = "two defaults that differ would surprise")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}
