//! PostgreSQL's lease mode against real servers: what is its own, beside the conformance suite.
#![forbid(unsafe_code)]

mod connecting;
mod doctor;
mod faults;
mod kit;
mod pooler;
mod rules;
mod schema;
mod sweeping;
mod waking;
