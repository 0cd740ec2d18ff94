use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::options::Options;
use crate::report::{Counts, Report};
use crate::{folders, process, servers, tmp};

pub(crate) const USAGE: &str = include_str!("../../chaos/usage.txt");

/// With `--example`, cargo enables the features of dev-dependencies, as for tests, so it builds no
/// crate twice.
const BUILD: [&str; 7] = [
    "build",
    "--workspace",
    "--all-features",
    "--bin",
    "lockwright-chaos",
    "--example",
    "flash_sale",
];

const LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn run(args: &[String]) -> Result<ExitCode, String> {
    servers::provide(true)?;
    process::succeeds(process::cargo(&BUILD))?;
    let _tmp_folder = tmp::TmpFolder::begin();
    process::exit_code(runner(args))
}

fn runner(args: &[String]) -> Command {
    let mut command = process::our_program(folders::target().join("debug/lockwright-chaos"), args);
    tmp::set(&mut command);
    command
}

pub(crate) fn step(options: &Options) -> Result<Report, String> {
    if options.quick {
        return Ok(Report::left_out("the faults are of servers"));
    }
    process::quietly("chaos-build", process::cargo(&BUILD))?;
    let selection = runner(&["--selection".to_owned(), "--jobs".to_owned(), "8".to_owned()]);
    let mut counts = Counts::default();
    let finished = process::run("chaos", selection, LIMIT, |line| {
        if let Some(outcome) = line.strip_prefix("ran ") {
            let passed =
                !outcome.starts_with("VIOLATION") && !outcome.starts_with("showed-nothing");
            counts.passed += u64::from(passed);
            counts.failed += u64::from(!passed);
        }
    });
    let ok = finished.ok() && counts.failed == 0 && counts.passed > 0;
    if !ok {
        finished.explain();
    }
    Ok(Report { tests: counts, ..Report::of(ok) })
}
