//! `cargo xtask bench`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::{folders, peers, process, servers};

const USAGE: &str = include_str!("../../benches/compare/usage.txt");

pub(crate) fn main(args: &[String]) -> ExitCode {
    if args.iter().any(|word| word == "--help" || word == "-h") {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run(args) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("cargo xtask bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode, String> {
    let mut args = args.to_vec();
    let task = args.first().map(String::as_str);
    let measures = !matches!(task, Some("compare" | "report"));
    servers::provide(measures)?;
    let is_whole_run =
        measures && task != Some("profile") && !args.iter().any(|word| word == "--smoke");
    if is_whole_run && !folders::target().join("peers/commands.tsv").exists() {
        let _ = peers::main();
    }
    let mut packages = vec!["build", "--release", "--package", "lockwright-bench"];
    if measures {
        packages.extend(["--package", "lockwright-bench-subjects"]);
    }
    eprintln!("building, with optimisation: that takes minutes when it's the first time");
    let built = process::cargo(&packages).status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("it can't be built: see above".to_owned());
    }
    if let Some(at) = args.iter().position(|word| word == "--before") {
        let revision = args.get_mut(at + 1).ok_or("--before wants a revision")?;
        *revision = built_as_of(revision)?.display().to_string();
    }
    let program = folders::target().join("release/lockwright-bench");
    let mut command = Command::new(&program);
    process::without_our_own(&mut command);
    command
        .args(&args)
        .env("CARGO_TARGET_DIR", folders::target())
        .env("LOCKWRIGHT_ROOT", folders::root());
    let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
}

fn built_as_of(revision: &str) -> Result<PathBuf, String> {
    let commit = format!("{revision}^{{commit}}");
    let commit = git(&folders::root(), &["rev-parse", "--verify", "--quiet", &commit])
        .map_err(|_| format!("--before wants a revision of this repository, not {revision:?}"))?;
    let clone = folders::target().join("bench/before");
    if !clone.join(".git").exists() {
        let (from, to) = (folders::root().display().to_string(), clone.display().to_string());
        git(&folders::root(), &["clone", "--quiet", "--shared", "--no-checkout", &from, &to])?;
    }
    git(&clone, &["checkout", "--quiet", "--force", "--detach", &commit])?;
    eprintln!("building what it was at {revision}");
    let package = "build --release --package lockwright-bench-* --bin bench-ours";
    let target = clone.join("target");
    let built = process::cargo(&package.split(' ').collect::<Vec<_>>())
        .current_dir(&clone)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err(format!("what it was at {revision} can't be built: see above"));
    }
    Ok(target.join("release/bench-ours"))
}

fn git(folder: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git").current_dir(folder).args(args).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
