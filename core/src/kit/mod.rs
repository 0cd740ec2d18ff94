//! Parts that several backends are made of. A client needs none of them.
//!
//! | part | subject |
//! |---|---|
//! | [`Audience`] | the clients of a backend, the names that they wait for, and telling them |
//! | [`Roster`] | who has a place in a session of ours, and until when |
//! | [`Over`] | which claims are over, so that a late repeat isn't taken for a new one |
//! | [`tls`] | the files that a URL names for TLS, who does its cryptography, and what a handshake ended by |
//! | [`line`](mod@line) | who of those who stand in line for a name holds, and the fence that readers share |
//! | [`percent`] | names in places that don't take every character |

mod audience;
pub mod line;
mod over;
pub mod percent;
mod roster;
pub mod tls;

pub use audience::Audience;
pub use over::Over;
pub use roster::Roster;
