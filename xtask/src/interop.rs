use std::path::Path;

use crate::options::Options;
use crate::report::Report;
use crate::run_tests::run_tests_of;
use crate::{config, folders};

const TESTS: &str = "conformance/interop/tests";

pub(crate) fn step(options: &Options) -> Result<Report, String> {
    if options.quick {
        return Ok(Report::left_out("the other programs lock on servers"));
    }
    let tests = tests().map_err(|error| format!("{TESTS} can't be read: {error}"))?;
    let mut args = vec!["--workspace", "--all-features"];
    for test in &tests {
        args.extend(["--test", test]);
    }
    // Another crate's test may have the same name.
    run_tests_of("interop", &args, options, |binary| binary.package == config::INTEROP)
}

fn tests() -> std::io::Result<Vec<String>> {
    let entries = std::fs::read_dir(folders::root().join(TESTS))?;
    let name = |path: &Path| path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
    entries.filter_map(|entry| entry.map(|entry| name(&entry.path())).transpose()).collect()
}
