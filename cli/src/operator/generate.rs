use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use super::print;
use crate::Failure;
use crate::args::Cli;

pub(super) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockwright", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(super) fn man(directory: Option<&Path>) -> Result<u8, Failure> {
    let mut cli = Cli::command().disable_help_subcommand(true);
    cli.build();
    let mut printed = Vec::new();
    let subcommands = cli.get_subcommands().filter(|command| !command.is_hide_set());
    std::iter::once(&cli)
        .chain(subcommands)
        .map(|command| Man::new(command.clone()))
        .try_for_each(|page| match directory {
            Some(directory) => page.generate_to(directory).map(drop),
            None => page.render(&mut printed),
        })
        .map_err(|error: io::Error| {
            let to = directory.unwrap_or(Path::new("standard output"));
            Failure::os(&format!("cannot write the man pages to {}", to.display()), error)
        })?;
    print(&String::from_utf8_lossy(&printed))?;
    Ok(0)
}
