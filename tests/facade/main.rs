//! What a user of the facade meets: URLs, configurations, and what is wrong with them.
#![forbid(unsafe_code)]

mod config;
mod features;
mod properties;
mod urls;
