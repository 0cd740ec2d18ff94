//! Tests of the SQLite backend with real files and processes, beyond the conformance suite.
#![cfg(any(target_os = "linux", target_os = "android"))]

mod bad_input;
mod basics;
mod cancellation;
mod doctor;
mod fencing;
mod file_system;
mod processes;
mod support;
mod wakeup;
