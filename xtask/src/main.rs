//! The task runner of this repository: see `cargo xtask help`.
//!
//! It depends only on the standard library, so that it builds within two seconds.
//!
//! | module | subject |
//! |---|---|
//! | `test` | the test command: order of the steps, summary |
//! | `steps` | the steps |
//! | `report` | a step's result |
//! | `config` | the crates whose tests start servers |
//! | `binaries` | builds test binaries, and runs a few in parallel |
//! | `tmp` | the temporary folder of tests and servers |
//! | `process` | runs a command, logs its output, shows it if it matters |
//! | `timeout` | kills a command that exceeds its time, and reports its state |
//! | `retry` | selects the failed tests that timed out, to run them again |
//! | `libtest` | parses the output of test binaries |
//! | `servers` | the required programs, and their installation |
//! | `versions` | the conformance suite on newer servers |
//! | `packages` | packages of the distribution's later suites, unpacked into folders |
//! | `cost`, `baseline` | the hot paths' cost in instructions, and its baseline |
//! | `bench` | builds and starts the comparative benchmarks |
//! | `peers`, `recipes`, `greeting` | builds the benchmarks' other libraries, and reads their handshakes |
//! | `chaos` | builds and starts the runner of random faults |
//! | `interop` | mutual exclusion with other programs |
//! | `examples` | the examples to run, and their required output |
//! | `pages` | checks of the documentation |
#![forbid(unsafe_code)]

mod baseline;
mod bench;
mod binaries;
mod chaos;
mod config;
mod cost;
mod examples;
mod greeting;
mod interop;
mod libtest;
mod packages;
mod pages;
mod parallel;
mod peers;
mod process;
mod prose;
mod recipes;
mod report;
mod retry;
mod servers;
mod steps;
mod table;
mod test;
mod timeout;
mod tmp;
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
        None => usage_error("a task is missing"),
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
  test [OPTION...] [STEP...]  run all checks, or only these steps
       --quick                only tests without servers; lists the others at the end
       --at-a-time NUMBER     how many test binaries run in parallel; default 2
  cost                        the step `cost` of `test`
       --record               write the present cost of hot paths as the baseline
  bench [OPTION...]           measure every backend, its baseline and other libraries, for two hours;
                              `cargo xtask bench --help` lists the options
  chaos [OPTION...]           random faults on real servers, and a check of what clients observed;
                              `cargo xtask chaos --help` lists the options
  interop                     the step `interop` of `test`, with its preparations
  peers                       build the other libraries that the benchmarks measure, and report
                              which can't be built, and why
  help                        print this text

Steps of `test`, in order:
",
    );
    for step in steps::ALL {
        text += &format!("  {:10} {}\n", step.name, step.what);
    }
    text += "
The last line is `N passed, N failed`. It counts tests, or steps if no step has tests. The exit code
is 0 if nothing failed, 1 if something failed, 2 if the command line was invalid. The full output is
in target/xtask/.
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
