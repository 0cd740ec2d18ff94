use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::Deserialize;

use crate::results::Kind;

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Handshake {
    pub(super) name: String,
    pub(super) library: String,
    pub(super) runtime: String,
    pub(super) backends: Vec<String>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

pub(super) struct Program {
    command: Vec<String>,
    log: PathBuf,
    pub(super) handshake: Handshake,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    Cannot(String),
    Failed(String),
}

impl Failure {
    pub(super) fn text(&self) -> &str {
        let (Self::Cannot(text) | Self::Failed(text)) = self;
        text
    }
}

impl Program {
    pub(super) fn meet(command: Vec<String>, kind: Kind, logs: &Path) -> Result<Self, Failure> {
        let called = command.last().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
        let log = logs.join(format!("{called}.log"));
        let mut program = Self { command, log, handshake: Handshake::default(), kind };
        program.handshake = program.start()?.1;
        Ok(program)
    }

    pub(super) fn is_for(&self, backend: &str) -> bool {
        self.handshake.backends.iter().any(|known| known == backend)
    }

    pub(super) fn worker(&self) -> Result<Worker, Failure> {
        Ok(self.start()?.0)
    }

    fn start(&self) -> Result<(Worker, Handshake), Failure> {
        let failed =
            |error: &dyn std::fmt::Display| Failure::Failed(format!("{:?}: {error}", self.command));
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(|error| failed(&error))?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().map_err(|error| failed(&error))?;
        let (commands, output) = (process.stdin.take(), process.stdout.take());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = output
                .into_iter()
                .flat_map(|output| BufReader::with_capacity(1 << 20, output).lines());
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut worker = Worker { process, commands, answers, log: self.log.clone() };
        let handshake = worker.answer_within(LIMIT)?;
        let handshake = serde_json::from_str(&handshake)
            .map_err(|error| failed(&format!("{handshake:?}: {error}")))?;
        Ok((worker, handshake))
    }
}

pub(super) struct Worker {
    process: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Worker {
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn send(&mut self, command: &str) {
        let _ = self.commands.as_mut().map(|commands| writeln!(commands, "{command}"));
    }

    pub(super) fn answer(&mut self, word: &str, time: Duration) -> Result<String, Failure> {
        let answer = self.answer_within(time + LIMIT)?;
        let (first, rest) = answer.split_once(' ').unwrap_or((&answer, ""));
        match first {
            _ if first == word => Ok(rest.to_owned()),
            "cannot" => Err(Failure::Cannot(rest.to_owned())),
            "error" => Err(Failure::Failed(rest.to_owned())),
            _ => {
                let start: String = answer.chars().take(200).collect();
                Err(Failure::Failed(format!("it says {start:?}")))
            }
        }
    }

    fn answer_within(&mut self, limit: Duration) -> Result<String, Failure> {
        let answer = self.answers.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("it has not answered for {} s", limit.as_secs()),
            RecvTimeoutError::Disconnected => format!("it has ended: {}", self.last_words()),
        });
        answer.map_err(Failure::Failed)
    }

    fn last_words(&self) -> String {
        let last = |log: Vec<u8>| {
            let text = String::from_utf8_lossy(&log[log.len().saturating_sub(500)..]);
            text.trim().replace('\n', " ")
        };
        std::fs::read(&self.log).map_or_else(|error| error.to_string(), last)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
