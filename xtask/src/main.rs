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
//! | `tested` | the list of crates whose tests start servers |
//! | `binaries` | builds test binaries, and runs a few at a time |
//! | `scratch` | where tests and their servers keep their files |
//! | `process` | runs a command, keeps its output, shows it where it matters |
//! | `hanging` | ends a command that doesn't come to its end, and says what it was doing |
//! | `late` | tells tests that were late from those that were wrong |
//! | `libtest` | reads what test binaries print |
//! | `servers` | the table of what must be installed, and its installation |
//! | `versions` | the conformance suite on newer versions of the servers |
//! | `packages` | packages of the distribution's later suites, unpacked into folders |
//! | `cost`, `recorded` | what hot paths cost in instructions, and the record of it |
//! | `bench` | builds the comparative benchmarks, and starts them |
//! | `peers`, `recipes`, `greeting` | builds the benchmarks' other libraries, and hears who they are |
//! | `chaos` | builds the runner of random faults, and starts it |
//! | `interop` | whether other programs and we keep each other out |
//! | `examples` | the table of examples that are run, and what they must print |
//! | `pages` | the check of links between the pages |
#![forbid(unsafe_code)]

mod bench;
mod binaries;
mod chaos;
mod cost;
mod examples;
mod greeting;
mod hanging;
mod interop;
mod lanes;
mod late;
mod libtest;
mod packages;
mod pages;
mod peers;
mod process;
mod recipes;
mod recorded;
mod report;
mod scratch;
mod servers;
mod steps;
mod table;
mod test;
mod tested;
mod versions;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((word, rest)) if word == "test" => test::main(rest),
        Some((word, rest)) if word == "cost" => cost::main(rest),
        Some((word, rest)) if word == "bench" => bench::main(rest),
        Some((word, rest)) if word == "chaos" => chaos::main(rest),
        Some((word, rest)) if word == "interop" => interop::main(rest),
        Some((word, rest)) if word == "peers" => peers::main(rest),
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
  test [OPTION...] [STEP...]  run everything that must pass, or only these steps
       --quick                what needs no server; says at the end what was left out
       --at-a-time NUMBER     how many test binaries run beside each other; without it 2
  cost                        its step of that name
       --record               records what hot paths cost now, for the step to compare with
  bench [OPTION...]           measure every backend beside its floor and its peers, for two hours;
                              `cargo xtask bench --help` says how to ask for less
  chaos [OPTION...]           random faults on real servers, and a check of what clients observed;
                              `cargo xtask chaos --help` lists the options
  interop                     the last of its steps, with what that needs
  peers                       builds the other libraries that the benchmarks measure beside ours, says
                              which can't be, and why
  help                        this text

Steps of `test`, in their order:
",
    );
    for step in steps::ALL {
        text += &format!("  {:10} {}\n", step.name, step.what);
    }
    text += "
A run ends with a line `N passed, N failed`, which counts tests, and also steps where none has a
test; and with exit code 0 if nothing failed, 1 if something did, 2 if the command line was wrong.
Full output is kept in target/xtask/.
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

/// Where cargo builds.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the full output of each step is kept.
fn log_folder() -> PathBuf {
    target_folder().join("xtask")
}
