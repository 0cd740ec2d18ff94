//! The quorum over nodes in memory: results of rounds, renewals and releases.
#![forbid(unsafe_code)]

mod kit;
mod node;
mod releasing;
mod renewing;
mod rounds;
mod seats;
mod telling;
