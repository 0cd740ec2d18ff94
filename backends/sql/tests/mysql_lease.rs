//! The conformance suite on MariaDB, with holds as rows.
#![forbid(unsafe_code)]

#[path = "suite/mysql.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("lease")
}
