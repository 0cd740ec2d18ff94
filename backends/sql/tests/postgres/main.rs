//! PostgreSQL's lease mode against real servers: what is its own, beside the conformance suite.
#![forbid(unsafe_code)]

mod connecting;
mod faults;
mod kit;
mod rules;
mod schema;
mod sweeping;
mod waking;
