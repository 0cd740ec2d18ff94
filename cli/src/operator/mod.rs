mod admit;
mod break_lock;
mod conformance;
mod doctor;
mod show;
mod sweep;
mod table;

use std::process::ExitCode;

use crate::args::{Command, ConnectionOptions};
use crate::connect::{config, connect, connect_for_diagnosis};
use crate::exit::Failure;
use crate::output::Output;
pub(crate) use conformance::as_child;

pub(crate) fn run(connection: &ConnectionOptions, command: &Command) -> ExitCode {
    let result = match command {
        Command::Conformance(what) => conformance::conformance(connection, what),
        _ => in_runtime(connection, command),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => Output::new(connection.json).fail(&failure),
    }
}

fn in_runtime(connection: &ConnectionOptions, command: &Command) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::os("cannot start", error))?;
    let result = runtime.block_on(answer(connection, command));
    runtime.shutdown_background();
    result
}

async fn answer(connection: &ConnectionOptions, command: &Command) -> Result<u8, Failure> {
    match command {
        Command::List { prefix } => {
            show::list(&connect(connection).await?, prefix, connection.json).await
        }
        Command::Show { name } => {
            lockwright::LockName::new(name)?;
            show::show(&connect(connection).await?, name, connection.json).await
        }
        Command::Break(what) => {
            break_lock::check(what, connection.json)?;
            break_lock::break_lock(&connect(connection).await?, what, connection.json).await
        }
        Command::Doctor => {
            doctor::doctor(&connect_for_diagnosis(connection).await?, connection.json).await
        }
        Command::Sweep { idle } => {
            sweep::sweep(&connect(connection).await?, *idle, connection.json).await
        }
        Command::Schema => {
            print(&lockwright::operator::schema(&config(connection)?.url)?)?;
            Ok(0)
        }
        Command::Admit { yes, force, wait } => {
            let how = admit::How::of(*yes, *force, *wait);
            admit::admit(&config(connection)?.url, how, connection.json).await
        }
        Command::Conformance(_) | Command::Run(_) => {
            unreachable!("these commands create their own runtimes")
        }
    }
}

/// Prints a result. A closed pipe, as after `head`, isn't an error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::{self, Write};

    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::os("cannot write the result", error))
        }
        _ => Ok(()),
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::os("cannot write the result as JSON", error))?;
    print(&(text + "\n"))
}
