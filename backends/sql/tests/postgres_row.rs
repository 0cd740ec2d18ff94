//! The conformance suite on PostgreSQL, where a hold is a locked row of an open transaction.
#![forbid(unsafe_code)]

#[path = "suite/postgres.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("row")
}
