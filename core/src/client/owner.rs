//! The reentrancy key.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reentrancy key: requests that carry the same one share a hold.
///
/// It is made by the user, for one logical activity, and given per request, never a thread or a
/// task id: an activity that spreads over tasks stays one, and two activities on one thread stay
/// two. Cloning it is how an activity lends its holds to its parts.
///
/// ```
/// # use lockwright_core::Owner;
/// let checkout = Owner::new();
/// assert_eq!(checkout, checkout.clone());
/// assert_ne!(checkout, Owner::new());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(NonZeroU64);

impl Owner {
    /// A key like no other in this process.
    #[expect(clippy::new_without_default, reason = "two defaults that differ would surprise")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}
