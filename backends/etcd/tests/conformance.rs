//! The conformance suite on three members of Debian's etcd.
#![forbid(unsafe_code)]

mod suite;

use std::process::ExitCode;

use lockwright_testbed::Etcd;

fn main() -> ExitCode {
    suite::main(Etcd::options(), "etcd-3.4")
}
