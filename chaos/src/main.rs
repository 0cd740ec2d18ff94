//! Random faults on real servers: `cargo xtask chaos`.
//!
//! See `docs/src/chaos.md`. A *lane* is a process that runs schedules on its own servers.
#![forbid(unsafe_code)]

mod client;
mod clients;
mod clock;
mod configuration;
mod evidence;
mod faults;
mod inject;
mod lane;
mod lane_process;
mod lanes;
mod options;
mod page;
mod promises;
mod schedule;
mod servers;
mod soak;
mod verdict;

use std::process::ExitCode;

use options::{Options, USAGE};

fn exit_code<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("client") => return exit_code(client::run()),
        Some("lane") => return exit_code(lane_process::run(&args[1..])),
        Some("soaker") => return exit_code(soak::work()),
        Some("--page") => return exit_code(page::write()),
        Some("--help" | "-h") => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    match Options::read(&args) {
        Ok(options) if options.soak => soak::run(&options),
        Ok(options) => lanes::run(&options, &args),
        Err(problem) => {
            eprint!("cargo xtask chaos: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}
