use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use fs_err as fs;

use crate::cost_baseline::{self, Costs, Path as Counted};
use crate::options::Options;
use crate::process::{cargo_in_background, output, quietly, without_lints};
use crate::report::Report;
use crate::{folders, text};

const CRATE: &str = "lockwright-cost";

const COUNTED: &str = "lockwright_cost::counted_by_callgrind";

const PROFILE: &str = "cost";

const RECORDED: &str = "benches/cost/recorded.json";

pub(crate) fn step(options: &Options) -> Result<Report, String> {
    if options.quick {
        return Ok(Report::left_out("valgrind may not be installed"));
    }
    compare(&count()?)
}

fn compare(costs: &Costs) -> Result<Report, String> {
    print!("{}", cost_baseline::table(&costs.paths));
    let recorded = fs::read_to_string(folders::root().join(RECORDED)).map_err(text)?;
    let recorded: Costs = serde_json::from_str(&recorded).map_err(|problem| {
        format!("{RECORDED}: {problem}; `cargo xtask cost --record` writes it")
    })?;
    if let Some(difference) = costs.built_differs_from(&recorded) {
        println!("     not compared: {difference}");
        let left_out = vec![format!("cost: the comparison with {RECORDED}: {difference}")];
        return Ok(Report { left_out, ..Report::of(true) });
    }
    Report::unless(cost_baseline::compare(&costs.paths, &recorded.paths).join("\n"))
}

pub(crate) fn record() -> Result<ExitCode, String> {
    let costs = count()?;
    let recorded = serde_json::to_string_pretty(&costs).map_err(text)?;
    fs::write(folders::root().join(RECORDED), recorded + "\n").map_err(text)?;
    println!("{}     recorded in {RECORDED}", cost_baseline::table(&costs.paths));
    Ok(ExitCode::SUCCESS)
}

fn count() -> Result<Costs, String> {
    let rustc = output("rustc", &["-vV"])?;
    let line = |key| rustc.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let host = line("host:").ok_or("rustc -vV says no host")?;
    let (paths, vectors) = run(&build(host)?)?;
    let libc = output("getconf", &["GNU_LIBC_VERSION"])?;
    let compiler = rustc.lines().next().unwrap_or_default();
    let built =
        [("compiler", compiler), ("target", host), ("libc", libc.trim()), ("vectors", &vectors)];
    let built = built.map(|(what, value)| (what.to_owned(), value.to_owned())).into();
    Ok(Costs { built, paths })
}

/// Fixed flags make all machines build the same code.
fn build(host: &str) -> Result<PathBuf, String> {
    let folder = folders::target();
    let mut command = cargo_in_background(&["build", "--package", CRATE, "--profile", PROFILE]);
    // With `--target`, the flags below don't apply to build scripts.
    without_lints(&mut command).args(["--target", host, "--target-dir"]).arg(&folder);
    // By default, rustix reads the clock through the vDSO, which valgrind lacks.
    command.env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}rustix_use_libc");
    quietly("cost-build", command).map_err(|_| format!("{CRATE} doesn't build"))?;
    Ok(folder.join(host).join(PROFILE).join(CRATE))
}

fn run(binary: &Path) -> Result<(Vec<Counted>, String), String> {
    let folder = folders::logs().join("cost");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(text(error)),
        _ => fs::create_dir_all(&folder).map_err(text)?,
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let valgrind = std::env::split_paths(&path).map(|folder| folder.join("valgrind"));
    let valgrind = { valgrind }.find(|file| file.is_file());
    let valgrind = valgrind.ok_or("valgrind is not installed: apt-get install valgrind")?;
    let mut command = Command::new(valgrind);
    // The environment and the path affect the stack's alignment, and so the cost.
    command.env_clear().env("TMPDIR", "/tmp").current_dir(binary.parent().unwrap_or(binary));
    command.args(["--tool=callgrind", "--collect-systime=yes", "--vgdb=no"]);
    command.arg(format!("--zero-before={COUNTED}")).arg(format!("--dump-after={COUNTED}"));
    command.arg(format!("--callgrind-out-file={}", folder.join("out").display()));
    command.arg(format!("--log-file={}", folder.join("valgrind.log").display()));
    command.arg(format!("./{CRATE}"));
    let finished = quietly("cost", command).map_err(|_| {
        let log = fs::read_to_string(folder.join("valgrind.log")).unwrap_or_default();
        format!("the paths can't be counted. {log}")
    })?;
    let mut lines = finished.lines.iter().filter_map(|line| line.split_once('\t'));
    let Some(("vectors", vectors)) = lines.next() else {
        return Err(format!("{CRATE} doesn't say first which instructions it has"));
    };
    let mut paths = Vec::new();
    for (at, (name, times)) in lines.enumerate() {
        let times = times.parse().map_err(|_| format!("{name} was gone {times} times?"))?;
        let dump = fs::read_to_string(folder.join(format!("out.{}", at + 1))).map_err(text)?;
        let sums = summary(&dump).ok_or("what callgrind wrote has no sums")?;
        paths.push(Counted::new(name, sums, times));
    }
    Ok((paths, vectors.to_owned()))
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
        // Callgrind omits a last count of zero. A path without system calls is an error.
        assert_eq!(summary("events: Ir sysCount\nsummary: 5\n"), None);
        assert_eq!(summary("events: Ir\nsummary: 5\n"), None);
    }
}
