//! The Redis backend of Lockwright.
#![forbid(unsafe_code)]
