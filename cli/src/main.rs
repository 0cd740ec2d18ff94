//! The `lockwright` command. See `docs/src/cli.md`.
#![forbid(unsafe_code)]

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
compile_error!(
    "the lockwright command needs Linux or macOS: signals, process groups, and a clock that all \
     processes share. The library also runs on other systems."
);

mod args;
mod connect;
mod duration;
mod escape;
mod exit;
mod json;
mod log;
mod operator;
mod output;
mod rfc3339;
mod run;
mod runtime;
mod stderr;
mod ticket;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use connect::config;
use escape::escape;
use exit::Failure;
use json::millis;
use output::Output;
use runtime::block_on;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    // Internal processes, which have a role as the first argument, parse no options.
    match args.nth(1) {
        Some(role) if role == run::process::ROLE_SUPERVISE => {
            return run::process::supervisor::main(args);
        }
        Some(role) if role == run::process::ROLE_EXEC => {
            return run::process::exec_child::main(args);
        }
        _ => {}
    }
    if let Some(code) = operator::as_child() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => 0,
                _ => exit::USAGE,
            });
        }
    };
    log::init(Output::new(cli.connection.json));
    match &cli.command {
        Command::Run(run) => run::run(&cli.connection, run, false),
        Command::Elect(run) => run::run(&cli.connection, run, true),
        command => operator::run(&cli.connection, command),
    }
}
