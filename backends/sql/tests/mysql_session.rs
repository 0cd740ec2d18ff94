//! The conformance suite on MariaDB in the mode `session`.
#![forbid(unsafe_code)]

#[path = "suite/mysql.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("session")
}
