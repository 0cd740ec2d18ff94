//! `lockwright-bench`: see `cargo xtask bench`.
#![forbid(unsafe_code)]

mod options;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lockwright_bench::driver::{self, Plan};
use lockwright_bench::report::Extent;
use lockwright_bench::results::{Kind, Missing, Results};
use lockwright_bench::{report, servers};

use options::{Bench, Command, USAGE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match options::parse(&words) {
        Ok(Command::Help) => {
            print!("{USAGE}");
            Ok(())
        }
        Ok(Command::Bench(bench)) => measure(&bench),
        Ok(Command::Report(json)) => report::read(&json)
            .map_err(Into::into)
            .and_then(|results| report(&results, &json, &options::out())),
        Ok(Command::Compare { old, new, all }) => compared(&old, &new, all),
        Err(problem) => {
            eprintln!("cargo xtask bench: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(bench: &Bench) -> servers::Result<Plan> {
    let own = std::env::current_exe()?;
    let beside = own.parent().unwrap_or(Path::new("."));
    let program = |name: &str| vec![beside.join(name).display().to_string()];
    let (peers, missing) = peers(&bench.peers)?;
    let mut ours =
        vec![(Kind::Baseline, program("bench-baseline")), (Kind::Ours, program("bench-ours"))];
    ours.extend(bench.before.iter().map(|before| (Kind::Before, vec![before.clone()])));
    Ok(Plan {
        backends: bench.backends.clone(),
        only: bench.only.clone(),
        rounds: bench.rounds,
        smoke: bench.smoke,
        ours,
        peers,
        missing,
        logs: bench.out.join("logs"),
    })
}

fn measure(bench: &Bench) -> servers::Result<()> {
    let plan = plan(bench)?;
    let json = bench.out.join(if bench.smoke { "smoke.json" } else { "results.json" });
    let results = driver::run(&plan, |results| write(&json, results))?;
    write(&json, &results)?;
    let is_whole = !bench.smoke && bench.backends.is_empty() && bench.only.is_empty();
    if is_whole {
        return publish(&results, &json, &bench.out);
    }
    report_in(&results, &json, &bench.out)
}

fn publish(results: &Results, json: &Path, out: &Path) -> servers::Result<()> {
    let (page, folder, kept) = docs();
    std::fs::create_dir_all(&folder)?;
    // Copying a file onto itself would empty it.
    if !is_same(json, &kept) {
        std::fs::copy(json, &kept)?;
    }
    report::write(results, &kept, &page, &folder, Extent::Summary)?;
    report_in(results, &kept, out)
}

fn report(results: &Results, json: &Path, out: &Path) -> servers::Result<()> {
    match is_same(json, &docs().2) {
        true => publish(results, json, out),
        false => report_in(results, json, out),
    }
}

fn docs() -> (PathBuf, PathBuf, PathBuf) {
    let root = std::env::var_os("LOCKWRIGHT_ROOT").map_or_else(|| ".".into(), PathBuf::from);
    let folder = root.join("docs/src/benchmarks");
    (folder.with_extension("md"), folder.clone(), folder.join("results.json"))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn report_in(results: &Results, json: &Path, folder: &Path) -> servers::Result<()> {
    let page = folder.join("report.md");
    report::write(results, json, &page, folder, Extent::Full)?;
    eprintln!("written: {}, {}", json.display(), page.display());
    Ok(())
}

fn compared(old: &Path, new: &Path, all: bool) -> servers::Result<()> {
    print!("{}", report::compare::text(&report::read(old)?, &report::read(new)?, all));
    Ok(())
}

fn write(path: &Path, results: &Results) -> servers::Result<()> {
    // A rename keeps the file complete, even if this process is killed.
    let new = path.with_extension("new");
    std::fs::write(&new, serde_json::to_string(results)? + "\n")?;
    Ok(std::fs::rename(&new, path)?)
}

fn peers(folder: &Path) -> servers::Result<(Vec<Vec<String>>, Vec<Missing>)> {
    let path = folder.join("built.json");
    let (mut commands, mut missing) = (Vec::new(), Vec::new());
    if path.exists() {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        (commands, missing) = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    }
    if commands.is_empty() {
        missing.push(Missing {
            name: "all peers".to_owned(),
            reason: "not built: `cargo xtask peers` does".to_owned(),
        });
    }
    Ok((commands, missing))
}
