//! Tests of the driver and the subjects.
#![forbid(unsafe_code)]

mod driver;
mod smoke;
