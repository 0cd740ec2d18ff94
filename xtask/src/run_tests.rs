use crate::binaries::{self, Binary};
use crate::options::Options;
use crate::report::Report;
use crate::{config, process};

pub(crate) fn run_tests(
    step: &str,
    args: &[&str],
    options: &Options,
    wanted: impl Fn(&Binary) -> bool,
) -> Result<Report, String> {
    let built = binaries::build(step, args);
    let _ = options.tests_are_built.set(());
    let mut binaries = built?;
    if step == "test" {
        let _ = options.tests.set(binaries.clone());
    }
    binaries.retain(wanted);
    let (mut skips, mut left_out) = (Vec::new(), Vec::new());
    if options.quick {
        let servers =
            binaries.extract_if(.., |binary| config::starts_servers(&binary.package, &binary.name));
        left_out.extend(servers.map(|binary| format!("{step}: {}", binary.title)));
        skips.extend(config::paths().flat_map(|path| ["--skip".to_owned(), path]));
    }
    let mut report = binaries::run(step, binaries, &skips, options.at_a_time, process::RUNNING);
    report.left_out.extend(left_out);
    if report.tests.filtered > 0 {
        let number = report.tests.filtered;
        let others = format!("{step}: {number} tests of other binaries that start servers");
        report.left_out.push(others);
    }
    Ok(report)
}
