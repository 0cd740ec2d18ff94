//! Lockwright.
#![forbid(unsafe_code)]

pub use lockwright_core::*;
