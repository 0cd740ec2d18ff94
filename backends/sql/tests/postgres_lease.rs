//! The conformance suite on PostgreSQL in the mode `lease`.
#![forbid(unsafe_code)]

#[path = "suite/postgres.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("lease")
}
