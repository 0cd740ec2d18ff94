//! The conformance suite that every Lockwright backend passes.
#![forbid(unsafe_code)]
