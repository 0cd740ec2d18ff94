//! Tests of the client's guarantees, on the memory backend and a clock that the tests move.
#![forbid(unsafe_code)]

mod cancellation;
mod closing;
mod election;
mod hand_over;
mod loss;
#[cfg(feature = "metrics")]
mod metrics;
mod multi;
mod queue;
mod reconcile;
mod reentrancy;
mod renewer;
mod requests;
mod retention;
#[cfg(feature = "tracing-spans")]
mod span;
mod support;
mod sweeping;
mod threads;
mod tickets;
mod validity;
mod warm;
mod with;
