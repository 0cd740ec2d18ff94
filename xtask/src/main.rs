//! The task runner of this repository: see `cargo xtask help`.
//!
//! It depends only on the standard library, so that it builds within two seconds.
//!
//! | module | subject |
//! |---|---|
//! | `usage` | the help, and the message for an invalid command line |
//! | `folders` | the folders of the repository, of cargo's output, and of the logs |
//! | `test` | the test command: order of the steps, summary |
//! | `steps` | the steps |
//! | `options` | the options of all steps |
//! | `report` | a step's result |
//! | `config` | the crates whose tests start servers |
//! | `run_tests` | builds and runs the tests of a step |
//! | `binaries` | builds test binaries, and runs a few in parallel |
//! | `tmp` | the temporary folder of tests and servers |
//! | `process` | runs a command, logs its output, shows it if it matters |
//! | `timeout` | kills a command that exceeds its time, and reports its state |
//! | `retry` | selects the failed tests that timed out, to run them again |
//! | `libtest` | parses the output of test binaries |
//! | `servers` | the required programs, and their installation |
//! | `newer_servers` | newer versions of the servers, and the test suites to run on them |
//! | `versions` | installs these servers, and runs the suites |
//! | `packages` | packages of the distribution's later suites, unpacked into folders |
//! | `cost`, `baseline` | the hot paths' cost in instructions, and its baseline |
//! | `bench` | builds and starts the comparative benchmarks |
//! | `peers`, `recipes`, `handshake` | builds the benchmarks' other libraries, and reads their handshakes |
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
mod folders;
mod handshake;
mod interop;
mod libtest;
mod newer_servers;
mod options;
mod packages;
mod pages;
mod parallel;
mod peers;
mod process;
mod prose;
mod recipes;
mod report;
mod retry;
mod run_tests;
mod servers;
mod steps;
mod table;
mod test;
mod timeout;
mod tmp;
mod usage;
mod versions;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, args)) = args.split_first() else {
        return usage::error("a task is missing");
    };
    match task.as_str() {
        "test" => test::main(args),
        "cost" => cost(args),
        "bench" => bench::main(args),
        "chaos" => chaos::main(args),
        "interop" => interop(args),
        "peers" => peers(args),
        "help" | "-h" | "--help" if args.is_empty() => {
            print!("{}", usage::help());
            ExitCode::SUCCESS
        }
        _ => usage::error(&format!("unknown task `{task}`")),
    }
}

fn cost(args: &[String]) -> ExitCode {
    match args {
        [] => test_steps(&["cost"]),
        [option] if option == "--record" => cost::record(),
        _ => usage::error("`cost` takes no argument but `--record`"),
    }
}

fn interop(args: &[String]) -> ExitCode {
    match args {
        [] => test_steps(&["servers", "interop"]),
        _ => usage::error("`interop` takes no arguments"),
    }
}

fn peers(args: &[String]) -> ExitCode {
    match args {
        [] => peers::main(),
        _ => usage::error("`peers` takes no arguments"),
    }
}

/// Runs the test command with these steps.
fn test_steps(names: &[&str]) -> ExitCode {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    test::main(&names)
}
