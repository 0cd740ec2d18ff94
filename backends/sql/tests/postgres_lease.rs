//! The conformance suite on PostgreSQL, with holds as rows.
#![forbid(unsafe_code)]

#[path = "suite/postgres.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("lease")
}
