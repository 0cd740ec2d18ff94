//! Tests of the quorum over nodes in memory.
#![forbid(unsafe_code)]

mod acquire;
mod common;
mod inspect;
mod membership;
mod node;
mod release;
mod renew;
