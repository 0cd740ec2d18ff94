//! Common parts of several backends. A client needs none of them.
//!
//! | part | subject |
//! |---|---|
//! | [`Subscribers`] | a backend's clients and the names that they wait for |
//! | [`ClaimRegistry`] | the claims in this client's sessions, and when they end |
//! | [`EndedClaims`] | tombstones of ended claims |
//! | [`tls`] | TLS: the files in a URL, the crypto provider, the causes of a failed handshake |
//! | [`admission`] | admission rules of a queue, and the fence that readers share |
//! | [`percent`] | names in places that don't accept every character |

pub mod admission;
mod claim_registry;
mod ended_claims;
pub mod percent;
mod subscribers;
pub mod tls;

pub use claim_registry::ClaimRegistry;
pub use ended_claims::EndedClaims;
pub use subscribers::Subscribers;
