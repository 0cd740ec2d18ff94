//! Whether Lockwright and other programs keep each other out: `cargo xtask interop`, and the last step
//! of the test command. The tests are in `conformance/interop/`.

use std::process::ExitCode;

use crate::report::Report;
use crate::steps::{Options, run_tests};

/// The crate with the tests. The step `test` leaves it to this one.
pub(crate) const CRATE: &str = "lockwright-interop";

/// The task: what it needs, and the step.
pub(crate) fn main(args: &[String]) -> ExitCode {
    match args {
        [] => crate::test::main(&["servers".to_owned(), "interop".to_owned()]),
        _ => crate::usage_error("`interop` takes no arguments"),
    }
}

/// The step.
pub(crate) fn step(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("the other programs lock on servers");
    }
    run_tests("interop", &["--package", CRATE, "--tests"], &[])
}
