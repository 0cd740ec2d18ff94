//! The task runner of this repository: `cargo xtask help` says what it does.
//!
//! It depends on the standard library alone, so that the first thing a newcomer runs has built
//! within a second or two.
//!
//! | module | subject |
//! |---|---|
//! | `test` | the one test command: its steps, their order, the summary |
//! | `steps` | each step |
//! | `report` | what a step says when it is over |
//! | `process` | runs a command, keeps its output, shows it where it matters |
//! | `libtest` | reads what test binaries print |
//! | `servers` | the table of what must be installed, and its installation |
//! | `interop` | whether other programs and we keep each other out |
//! | `examples` | the table of examples that are run, and what they must print |
//! | `pages` | the check of links between the pages |
#![forbid(unsafe_code)]

mod examples;
mod interop;
mod libtest;
mod pages;
mod process;
mod report;
mod servers;
mod steps;
mod table;
mod test;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((word, rest)) if word == "test" => test::main(rest),
        Some((word, rest)) if word == "interop" => interop::main(rest),
        Some((word, [])) if matches!(word.as_str(), "help" | "-h" | "--help") => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some((word, _)) => usage_error(&format!("unknown task `{word}`")),
        None => usage_error("which task?"),
    }
}

/// Says what was wrong with the command line, and what would have been right.
fn usage_error(problem: &str) -> ExitCode {
    eprint!("cargo xtask: {problem}\n\n{}", help());
    ExitCode::from(2)
}

fn help() -> String {
    let mut text = String::from(
        "\
Usage: cargo xtask TASK

Tasks:
  test [--quick] [STEP...]   run everything that must pass, or only these steps
       --quick               what needs no server; says at the end what was left out
  interop                    the last of its steps, with what that needs
  help                       this text

Steps of `test`, in their order:
",
    );
    for step in steps::ALL {
        text += &format!("  {:10} {}\n", step.name, step.what);
    }
    text += "
A run ends with a line `N passed, N failed`, and with exit code 0 if nothing failed, 1 if
something did, 2 if the command line was wrong. Full output is kept in target/xtask/.
";
    text
}

/// The root of the repository.
fn root() -> PathBuf {
    // At run time when cargo says so: a target folder may be shared between clones.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

/// Where the full output of each step is kept.
fn log_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join("xtask")
}
