//! The conformance suite on PostgreSQL, where a hold is an advisory lock of a session.
#![forbid(unsafe_code)]

#[path = "suite/postgres.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("session")
}
