//! The conformance suite on MariaDB, where a hold is a `GET_LOCK` of a session.
#![forbid(unsafe_code)]

#[path = "suite/mysql.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("session")
}
