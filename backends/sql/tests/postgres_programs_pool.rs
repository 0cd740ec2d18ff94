//! The conformance suite on PostgreSQL with the connections of a program's own pool.
#![forbid(unsafe_code)]

#[path = "suite/postgres_programs_pool.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("lease")
}
