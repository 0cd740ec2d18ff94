//! `cargo xtask cost`: see `benches/README.md`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::baseline::{self, Costs, Path as Counted};
use crate::folders;
use crate::options::Options;
use crate::process::{cargo, quietly};
use crate::report::Report;

const CRATE: &str = "lockwright-cost";

const COUNTED: &str = "lockwright_cost::counted_by_callgrind";

const PROFILE: &str = "cost";

const RECORDED: &str = "benches/cost/recorded.txt";

pub(crate) fn step(options: &Options) -> Report {
    if options.quick {
        return Report::left_out("valgrind may not be installed");
    }
    let compared = count().and_then(|costs| {
        let file = folders::root().join(RECORDED);
        let recorded = fs::read_to_string(&file).map_err(|error| error.to_string());
        let recorded = recorded.and_then(|text| baseline::read(&text));
        let recorded = recorded.map_err(|problem| {
            format!("{RECORDED}: {problem}; `cargo xtask cost --record` writes it")
        })?;
        Ok((costs, recorded))
    });
    let (costs, recorded) = match compared {
        Ok(both) => both,
        Err(problem) => return Report::failed(&problem),
    };
    // It shows that the paths work.
    print!("{}", baseline::table(&costs.paths, "     "));
    if let Some(difference) = costs.built.differs_from(&recorded.built) {
        println!("     not compared: {difference}");
        let mut report = Report::of(true);
        report.left_out.push(format!("cost: the comparison with {RECORDED}: {difference}"));
        return report;
    }
    let problems = baseline::compare(&costs.paths, &recorded.paths);
    if problems.is_empty() {
        return Report::of(true);
    }
    Report::failed(&problems.join("\n"))
}

pub(crate) fn record() -> ExitCode {
    match count().and_then(|costs| write(&costs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("     {problem}");
            ExitCode::FAILURE
        }
    }
}

fn write(costs: &Costs) -> Result<(), String> {
    fs::write(folders::root().join(RECORDED), baseline::write(costs))
        .map_err(|error| format!("{RECORDED} can't be written: {error}"))?;
    print!("{}", baseline::table(&costs.paths, "     "));
    println!("     recorded in {RECORDED}");
    Ok(())
}

fn count() -> Result<Costs, String> {
    let compiler = said("rustc", &["-vV"])?;
    let line = |key: &str| {
        let found = compiler.lines().find_map(|line| line.strip_prefix(key));
        found.map(|value| value.trim().to_owned()).ok_or_else(|| format!("rustc -vV says no {key}"))
    };
    let host = line("host:")?;
    let binary = build(&host)?;
    let (paths, vectors) = run(&binary)?;
    let libc = said("getconf", &["GNU_LIBC_VERSION"])?.trim().to_owned();
    let rustc = compiler.lines().next().unwrap_or_default().to_owned();
    Ok(Costs { built: baseline::Built { rustc, host, libc, vectors }, paths })
}

fn said(program: &str, args: &[&str]) -> Result<String, String> {
    let cannot =
        |problem: &str| format!("`{program} {}` can't be asked: {problem}", args.join(" "));
    let output = Command::new(program).args(args).current_dir(folders::root()).output();
    let output = output.map_err(|error| cannot(&error.to_string()))?;
    if !output.status.success() {
        return Err(cannot(&output.status.to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Fixed flags: all machines build the same code.
fn build(host: &str) -> Result<PathBuf, String> {
    let folder = folders::target();
    let mut command = cargo(&["build", "--package", CRATE, "--profile", PROFILE]);
    // With an explicit target, the flags don't apply to build scripts.
    command.args(["--target", host, "--target-dir"]).arg(&folder);
    // Otherwise rustix reads the clock through the vDSO, which doesn't exist under valgrind.
    command.env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}rustix_use_libc");
    if !quietly("cost-build", command).ok() {
        return Err(format!("{CRATE} doesn't build"));
    }
    Ok(folder.join(host).join(PROFILE).join(CRATE))
}

fn run(binary: &Path) -> Result<(Vec<Counted>, String), String> {
    let unreadable = |error: io::Error| format!("what callgrind wrote can't be read: {error}");
    let folder = folders::logs().join("cost");
    // They would be mistaken for new ones.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unreadable(error)),
        _ => fs::create_dir_all(&folder).map_err(unreadable)?,
    }
    let valgrind = valgrind().ok_or("valgrind is not installed: apt-get install valgrind")?;
    let mut command = Command::new(valgrind);
    // The environment and the program's path affect the stack's alignment, and so copies.
    command.env_clear().env("TMPDIR", "/tmp").current_dir(binary.parent().unwrap_or(binary));
    command.args(["--tool=callgrind", "--collect-systime=yes", "--vgdb=no"]);
    command.arg(format!("--zero-before={COUNTED}")).arg(format!("--dump-after={COUNTED}"));
    command.arg(format!("--callgrind-out-file={}", folder.join("out").display()));
    command.arg(format!("--log-file={}", folder.join("valgrind.log").display()));
    command.arg(format!("./{CRATE}"));
    let finished = quietly("cost", command);
    if !finished.ok() {
        let log = fs::read_to_string(folder.join("valgrind.log")).unwrap_or_default();
        return Err(format!("the paths can't be counted. {log}"));
    }
    let mut lines = finished.lines.iter().filter_map(|line| line.split_once('\t'));
    let Some(("vectors", vectors)) = lines.next() else {
        return Err(format!("{CRATE} doesn't say first which instructions it has"));
    };
    let mut paths = Vec::new();
    for (at, (name, times)) in lines.enumerate() {
        let times = times.parse().map_err(|_| format!("{name} was gone {times} times?"))?;
        let dump =
            fs::read_to_string(folder.join(format!("out.{}", at + 1))).map_err(unreadable)?;
        let sums = summary(&dump).ok_or("what callgrind wrote has no sums")?;
        paths.push(Counted::new(name, sums, times));
    }
    Ok((paths, vectors.to_owned()))
}

fn valgrind() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join("valgrind"))
        .find(|file| file.is_file())
}

fn summary(dump: &str) -> Option<(u64, u64)> {
    let line = |key| dump.lines().find_map(|line| line.strip_prefix(key));
    let events: Vec<&str> = line("events:")?.split_whitespace().collect();
    let sums: Vec<&str> = line("summary:")?.split_whitespace().collect();
    let sum = |event: &str| sums.get(events.iter().position(|e| *e == event)?)?.parse().ok();
    Some((sum("Ir")?, sum("sysCount")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_sums_are_found_by_their_names() {
        let dump = "events: Ir sysCount sysTime\nsummary: 5621287 10001 223\ntotals: 7 8 9\n";
        assert_eq!(summary(dump), Some((5_621_287, 10_001)));
        // Callgrind omits zeros at the end.
        assert_eq!(summary("events: Ir sysCount\nsummary: 5\n"), None);
        assert_eq!(summary("events: Ir\nsummary: 5\n"), None);
    }
}
