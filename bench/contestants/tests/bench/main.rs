//! The driver of the benchmarks, and who takes part.
#![forbid(unsafe_code)]

mod driver;
mod smoke;
