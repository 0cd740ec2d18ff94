//! The quorum over nodes in memory.
#![forbid(unsafe_code)]

mod kit;
mod node;
mod releasing;
mod renewing;
mod rounds;
mod seats;
mod telling;
