//! Starts real servers for Lockwright's tests, benches and examples.
#![forbid(unsafe_code)]
