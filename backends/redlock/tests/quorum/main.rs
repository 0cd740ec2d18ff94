//! The quorum over nodes in memory: what a round, a renewal and a release make of their answers.
#![forbid(unsafe_code)]

mod kit;
mod node;
mod releasing;
mod renewing;
mod rounds;
mod seats;
mod telling;
