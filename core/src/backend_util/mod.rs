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

pub use claim_registry::ClaimRegistry;
pub use ended_claims::EndedClaims;
pub use jitter::Jitter;
pub use recent_names::RecentNames;
pub use subscribers::Subscribers;
