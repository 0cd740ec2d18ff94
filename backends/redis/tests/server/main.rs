//! The Redis backend against real servers: what is Redis's own, beside the conformance suite.

mod kit;
mod locking;
