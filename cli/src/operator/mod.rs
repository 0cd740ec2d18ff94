mod admit;
mod break_lock;
mod config_check;
mod conformance;
mod doctor;
mod generate;
mod poller;
mod show;
mod sweep;
mod table;
mod top;
mod watch;

use std::process::ExitCode;

use tokio::runtime::Builder;

use crate::args::{Command, ConfigCommand, ConnectionOptions};
use crate::connect::connect;
use crate::{Failure, Output, block_on, config, ticket};
pub(crate) use conformance::as_child;

pub(crate) fn run(connection: &ConnectionOptions, command: &Command) -> ExitCode {
    let result = match command {
        Command::Config(ConfigCommand::Check { file }) => {
            config_check::check(connection, file.as_ref(), connection.json)
        }
        Command::Conformance(what) => conformance::conformance(connection, what),
        _ => block_on(&mut Builder::new_multi_thread(), answer(connection, command)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => Output::new(connection.json).fail(&failure),
    }
}

async fn answer(connection: &ConnectionOptions, command: &Command) -> Result<u8, Failure> {
    let json = connection.json;
    match command {
        Command::Acquire(what) => ticket::acquire(connection, what).await,
        Command::Renew { ticket } => ticket::renew(connection, ticket).await,
        Command::Release { ticket } => ticket::release(connection, ticket).await,
        Command::List { prefix } => show::list(&connect(connection).await?, prefix, json).await,
        Command::Watch(what) => watch::watch(&connect(connection).await?, what, json).await,
        Command::Top(what) => {
            top::check(json)?;
            top::top(&connect(connection).await?, what).await
        }
        Command::Show { name } => {
            lockwright::LockName::new(name)?;
            show::show(&connect(connection).await?, name, json).await
        }
        Command::Break(what) => {
            break_lock::check(what, json)?;
            break_lock::break_lock(&connect(connection).await?, what, json).await
        }
        Command::Doctor => {
            doctor::doctor(&config(connection)?.connect_for_diagnosis().await?, json).await
        }
        Command::Sweep { idle } => sweep::sweep(&connect(connection).await?, *idle, json).await,
        Command::Schema => {
            print(&lockwright::operator::schema(&config(connection)?.full_url()?)?)?;
            Ok(0)
        }
        Command::Completions { shell } => generate::completions(*shell),
        Command::Man { directory } => generate::man(directory.as_deref()),
        Command::Admit(what) => admit::admit(&config(connection)?.full_url()?, what, json).await,
        Command::Config(_) | Command::Conformance(_) | Command::Run(_) | Command::Elect(_) => {
            unreachable!("these commands create their own runtimes, or need none")
        }
    }
}

/// A pipe that its reader (`head`) has closed isn't an error.
fn print(text: &str) -> Result<(), Failure> {
    use std::io::{self, Write};

    match io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::os("cannot write the result", error))
        }
        _ => Ok(()),
    }
}

fn print_result(json: bool, value: &impl serde::Serialize, text: &str) -> Result<(), Failure> {
    if !json {
        return print(text);
    }
    let value = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::os("cannot write the result as JSON", error))?;
    print(&(value + "\n"))
}
