//! Common parts of several backends. A client needs none of them.
//!
//! | part | subject |
//! |---|---|
//! | [`Audience`] | a backend's clients and the names that they wait for |
//! | [`Roster`] | the claims in this client's sessions, and when they end |
//! | [`Over`] | tombstones of ended claims |
//! | [`tls`] | TLS: the files in a URL, the crypto provider, the causes of a failed handshake |
//! | [`line`](mod@line) | admission rules of a queue, and the fence that readers share |
//! | [`percent`] | names in places that don't accept every character |

mod audience;
pub mod line;
mod over;
pub mod percent;
mod roster;
pub mod tls;

pub use audience::Audience;
pub use over::Over;
pub use roster::Roster;
