//! The comparative benchmarks: starts servers and contestants, measures them side by side, writes the report.
#![forbid(unsafe_code)]

pub mod driver;
mod machine;
pub mod report;
pub mod results;
pub mod servers;
pub mod workload;

pub use results::Results;
pub use workload::{WORKLOADS, Workload};
