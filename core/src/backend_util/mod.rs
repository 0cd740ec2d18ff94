//! Code that several backends share.

mod claim_registry;
mod clients;
mod ended_claims;
pub mod finding;
mod jitter;
pub mod percent;
pub mod queue_admission;
mod recent_names;
mod subscribers;
pub mod tls;
pub mod url;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use claim_registry::ClaimRegistry;
pub use clients::Clients;
pub use ended_claims::EndedClaims;
pub use jitter::Jitter;
pub use recent_names::RecentNames;
pub use subscribers::Subscribers;

/// Locks a mutex, even after a panic of a thread that held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::{Claim, Identity, LockName, Mode, RenewalMode, Token};

    pub(super) fn claim(name: &str) -> Claim {
        Claim {
            name: LockName::new(name).unwrap(),
            mode: Mode::Exclusive,
            token: Token::random(),
            identity: Arc::new(Identity::of_this_process(None)),
            ttl: Duration::from_secs(1),
            fences: 1,
            renewal_mode: RenewalMode::Auto,
            recall: false,
        }
    }
}
