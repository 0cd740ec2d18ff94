//! The task runner of this repository: see `cargo xtask help`.
#![forbid(unsafe_code)]

mod bench;
mod binaries;
mod chaos;
mod config;
mod cost;
mod cost_baseline;
mod examples;
mod folders;
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

use std::fmt::Display;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let asks_for_help = words.iter().any(|word| ["-h", "--help"].contains(word));
    let done = match *words {
        [] => return usage::error("a task is missing"),
        ["test", ..] => return test::main(&args[1..]),
        ["cost"] => return test::main(&args),
        ["cost", "--record"] => cost::record(),
        ["bench", ..] if asks_for_help => print(bench::USAGE),
        ["bench", ..] => bench::run(&args[1..]),
        ["chaos", ..] if asks_for_help => print(chaos::USAGE),
        ["chaos", ..] => chaos::run(&args[1..]),
        ["interop"] => return test::main(&["servers", "interop"].map(str::to_owned)),
        ["peers"] => peers::build_all(),
        ["help" | "-h" | "--help"] => print(&usage::help()),
        _ => return usage::error(&format!("unknown task or argument in `{}`", words.join(" "))),
    };
    done.unwrap_or_else(|problem| {
        eprintln!("cargo xtask {}: {problem}", args[0]);
        ExitCode::FAILURE
    })
}

fn print(text: &str) -> Result<ExitCode, String> {
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn text(error: impl Display) -> String {
    error.to_string()
}
