//! The task runner of this repository: see `cargo xtask help`.
//!
//! It depends only on the standard library, so that it builds within two seconds.
#![forbid(unsafe_code)]

mod baseline;
mod bench;
mod binaries;
mod chaos;
mod config;
mod cost;
mod examples;
mod folders;
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

fn test_steps(names: &[&str]) -> ExitCode {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    test::main(&names)
}
