//! Code that several backends share.

pub mod admission;
mod claim_registry;
mod ended_claims;
pub mod finding;
mod jitter;
pub mod percent;
mod recent_names;
mod subscribers;
pub mod tls;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use claim_registry::ClaimRegistry;
pub use ended_claims::EndedClaims;
pub use jitter::Jitter;
pub use recent_names::RecentNames;
pub use subscribers::Subscribers;

/// Locks a mutex, even if another thread panicked while it held the mutex.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
