#![allow(dead_code, reason = "no example needs all of it")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use lockwright::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Runtime};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn url(folder: &Path) -> Result<String> {
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => Ok(format!("sqlite:{}", folder.join("locks.db").display())),
        [option, url] if option == "--url" => Ok(url.clone()),
        _ => Err(Error::invalid_input("it takes --url URL, or nothing")),
    }
}

pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(io)
}

pub(crate) fn told(name: &str) -> Result<String> {
    std::env::var(name).map_err(|error| Error::invalid_input(name).with_source(error))
}

/// Turns an unanswered release into success, because the client repeats the release.
pub(crate) fn released(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Indeterminate => Ok(()),
        outcome => outcome,
    }
}

/// Child processes, killed when dropped.
pub(crate) struct Children(pub(crate) Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Child processes and the lines that they print.
pub(crate) struct Processes {
    children: Children,
    lines: Receiver<(usize, String)>,
    sender: Sender<(usize, String)>,
}

impl Processes {
    pub(crate) fn new() -> Self {
        let (sender, lines) = channel();
        Self { children: Children(Vec::new()), lines, sender }
    }

    pub(crate) fn start(&mut self, variables: &[(&str, &str)]) -> Result<()> {
        let mut child = Command::new(std::env::current_exe().map_err(io)?)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io)?;
        let said = child.stdout.take().expect("its output is piped");
        let (number, sender) = (self.children.0.len(), self.sender.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(std::result::Result::ok) {
                let _ = sender.send((number, line));
            }
        });
        self.children.0.push(child);
        Ok(())
    }

    pub(crate) fn next(&self) -> Result<(usize, String)> {
        self.lines.recv_timeout(LIMIT).map_err(|error| {
            Error::unavailable("no process said anything for a minute").with_source(error)
        })
    }

    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        self.children.0[number].kill().map_err(io)
    }
}

pub(crate) fn io(error: std::io::Error) -> Error {
    Error::unavailable("a file or process of the example can't be used").with_source(error)
}
