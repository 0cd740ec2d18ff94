//! The comparative benchmarks.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // the names express the rest

pub mod driver;
mod machine;
pub mod report;
pub mod results;
pub mod servers;
pub mod workload;

pub use results::Results;
pub use workload::{WORKLOADS, Workload};
