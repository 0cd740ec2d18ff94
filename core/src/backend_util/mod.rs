//! Common parts of several backends.

pub mod admission;
mod claim_registry;
mod ended_claims;
pub mod percent;
mod recent_names;
mod seeded;
mod subscribers;
pub mod tls;

pub use claim_registry::ClaimRegistry;
pub use ended_claims::EndedClaims;
pub use recent_names::RecentNames;
pub use seeded::next_random;
pub use subscribers::Subscribers;
