//! The task runner of this repository: see `cargo xtask help`.
//!
//! It depends only on the standard library, so that it builds within two seconds.
//!
//! | module | subject |
//! |---|---|
//! | `test` | the test command: order of the steps, summary |
//! | `steps` | the steps |
//! | `report` | a step's result |
//! | `tested` | the crates whose tests start servers |
//! | `binaries` | builds test binaries, and runs a few in parallel |
//! | `scratch` | the temporary folder of tests and servers |
//! | `process` | runs a command, logs its output, shows it if it matters |
//! | `hanging` | kills a command that exceeds its time, and reports its state |
//! | `late` | separates tests that were late from tests that were wrong |
//! | `libtest` | parses the output of test binaries |
//! | `servers` | the required programs, and their installation |
//! | `versions` | the conformance suite on newer servers |
//! | `packages` | packages of the distribution's later suites, unpacked into folders |
//! | `cost`, `recorded` | the hot paths' cost in instructions, and its record |
//! | `bench` | builds and starts the comparative benchmarks |
//! | `peers`, `recipes`, `greeting` | builds the benchmarks' other libraries, and reads their handshakes |
//! | `chaos` | builds and starts the runner of random faults |
//! | `interop` | mutual exclusion with other programs |
//! | `examples` | the examples to run, and their required output |
//! | `pages` | checks of the documentation |
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
  bench [OPTION...]           measure every backend with its baseline and its peers, for two hours;
                              `cargo xtask bench --help` says how to ask for less
  chaos [OPTION...]           random faults on real servers, and a check of what clients observed;
                              `cargo xtask chaos --help` lists the options
  interop                     the last of its steps, with what that needs
  peers                       builds the other libraries of the benchmarks, and lists those that
                              fail, with the reason
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

fn root() -> PathBuf {
    // At run time if possible: several clones may share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(Path::to_path_buf).unwrap_or(here)
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn log_folder() -> PathBuf {
    target_folder().join("xtask")
}
