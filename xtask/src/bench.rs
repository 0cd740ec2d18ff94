use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::process::{self, output};
use crate::{folders, peers, servers};

pub(crate) const USAGE: &str = include_str!("../../benches/compare/usage.txt");

pub(crate) fn run(args: &[String]) -> Result<ExitCode, String> {
    let mut args = args.to_vec();
    let task = args.first().map(String::as_str);
    let measures = !matches!(task, Some("compare" | "report"));
    servers::provide(measures)?;
    let is_whole_run = measures && !args.iter().any(|word| word == "--smoke");
    if is_whole_run && !folders::target().join("peers/built.json").exists() {
        let _ = peers::build_all().inspect_err(|problem| eprintln!("{problem}"));
    }
    let mut packages = vec!["--package", "lockwright-bench"];
    if measures {
        packages.extend(["--package", "lockwright-bench-subjects"]);
    }
    eprintln!("building, with optimisation: that takes minutes when it's the first time");
    build(&packages, &folders::root(), &folders::target())?;
    if let Some(at) = args.iter().position(|word| word == "--before") {
        let revision = args.get_mut(at + 1).ok_or("--before wants a revision")?;
        *revision = built_as_of(revision)?.display().to_string();
    }
    let program = folders::target().join("release/lockwright-bench");
    process::exit_code(process::our_program(program, &args))
}

fn build(what: &[&str], folder: &Path, target: &Path) -> Result<(), String> {
    let mut command = process::cargo(&["build", "--release"]);
    process::without_lints(&mut command).args(what).current_dir(folder);
    command.env("CARGO_TARGET_DIR", target);
    process::succeeds(command)
}

fn built_as_of(revision: &str) -> Result<PathBuf, String> {
    let commit = format!("{revision}^{{commit}}");
    let commit = output("git", &["rev-parse", "--verify", "--quiet", &commit])
        .map_err(|_| format!("--before wants a revision of this repository, not {revision:?}"))?;
    let clone = folders::target().join("bench/before");
    let (from, to) = (folders::root().display().to_string(), clone.display().to_string());
    if !clone.join(".git").exists() {
        output("git", &["clone", "--quiet", "--shared", "--no-checkout", &from, &to])?;
    }
    output("git", &["-C", &to, "checkout", "--quiet", "--force", "--detach", commit.trim()])?;
    eprintln!("building what it was at {revision}");
    let target = clone.join("target");
    let program = ["--package", "lockwright-bench-*", "--bin", "bench-ours"];
    build(&program, &clone, &target)?;
    Ok(target.join("release/bench-ours"))
}
