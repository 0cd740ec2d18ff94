//! The conformance suite on MariaDB, where a hold is a locked row of an open transaction.
#![forbid(unsafe_code)]

#[path = "mysql_held/suite.rs"]
mod suite;

fn main() -> std::process::ExitCode {
    suite::main("row")
}
