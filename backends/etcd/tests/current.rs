//! The conformance suite on three members of a current etcd.
#![forbid(unsafe_code)]

mod suite;

use std::process::ExitCode;

use lockwright_testbed::Etcd;
use lockwright_testbed::etcd::Version;

fn main() -> ExitCode {
    suite::main(Etcd::options().version(Version::Current), "etcd-3.6")
}
