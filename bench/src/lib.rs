//! The comparative benchmarks: starts servers and subjects, measures them, writes the report.
#![forbid(unsafe_code)]

pub mod driver;
mod machine;
pub mod report;
pub mod results;
pub mod servers;
pub mod workload;

pub use results::Results;
pub use workload::{WORKLOADS, Workload};
