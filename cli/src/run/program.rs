use std::borrow::Borrow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use lockwright::fencing::Fenced;

use crate::args::Run;
use crate::run::process::{ROLE_SUPERVISE, own_path};
use crate::{Failure, exit};

#[derive(Debug)]
pub(crate) struct Resolved(Vec<OsString>); // never empty

/// Checks that the program exists, to report a mistyped name before a long wait for the lock.
pub(crate) fn resolve(run: &Run) -> Result<Resolved, Failure> {
    if let Some(shell) = &run.shell {
        return Ok(Resolved(vec!["/bin/sh".into(), "-c".into(), shell.clone()]));
    }
    let Some(program) = run.command.first() else {
        return Err(Failure::usage(
            "no command to run; write `lockwright run NAME -- CMD`, or -c COMMAND",
        ));
    };
    if !exists(program) {
        return Err(Failure::new(
            exit::NOT_FOUND,
            "not_found",
            format!("{}: no such command; the lock was not acquired", program.to_string_lossy()),
        ));
    }
    Ok(Resolved(run.command.clone()))
}

fn exists(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).exists();
    }
    match std::env::var_os("PATH") {
        Some(path) => std::env::split_paths(&path).any(|folder| folder.join(program).exists()),
        None => true,
    }
}

/// Returns the variables that describe the holds to the command, with one line for each name.
pub(crate) fn variables(
    run: &Run,
    fenced: &[impl Borrow<Fenced>],
    owner: &str,
) -> [(&'static str, String); 4] {
    let lines = |text: fn(&Fenced) -> String| {
        let lines: Vec<_> = fenced.iter().map(|fenced| text(fenced.borrow())).collect();
        lines.join("\n")
    };
    let names: Vec<_> = run.names().map(String::as_str).collect();
    [
        ("LOCKWRIGHT_NAME", names.join("\n")),
        ("LOCKWRIGHT_FENCE", lines(|fenced| fenced.fence.to_string())),
        ("LOCKWRIGHT_FENCED", lines(Fenced::to_string)),
        ("LOCKWRIGHT_OWNER", owner.to_owned()),
    ]
}

impl Resolved {
    pub(crate) fn itself(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }

    pub(crate) fn with_environment<'a>(
        &self,
        vars: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Command {
        let mut supervisor = Command::new(own_path());
        supervisor.arg(ROLE_SUPERVISE).args(&self.0).envs(vars);
        supervisor
    }
}
