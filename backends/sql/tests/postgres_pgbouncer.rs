//! The conformance suite on PostgreSQL behind PgBouncer, which pools transactions.
#![forbid(unsafe_code)]

#[path = "suite/pgbouncer.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("lease")
}
