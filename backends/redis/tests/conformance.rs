//! Runs the conformance suite on real Redis servers.
#![forbid(unsafe_code)]

mod suite;

use std::process::ExitCode;

use lockwright_testbed::Redis;

fn main() -> ExitCode {
    suite::main(Redis::options(), None)
}
