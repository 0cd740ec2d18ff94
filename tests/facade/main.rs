//! Tests of the facade: URLs, configurations, and their errors.
#![forbid(unsafe_code)]

mod config;
mod features;
mod properties;
mod urls;
