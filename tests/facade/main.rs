//! Tests of the facade: URLs, configurations, and their errors.
#![forbid(unsafe_code)]

#[cfg(feature = "blocking")]
mod blocking;
mod config;
mod features;
#[cfg(feature = "config-file")]
mod load;
mod properties;
mod urls;
