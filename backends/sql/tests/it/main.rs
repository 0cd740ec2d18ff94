//! The SQLite backend against real files and real processes.
//!
//! The cases that every backend passes are in the conformance suite; here is what is SQLite's own.
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
