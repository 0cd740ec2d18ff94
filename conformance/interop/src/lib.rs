//! Whether Lockwright and other programs keep each other out, both ways: `cargo xtask interop`.
//!
//! | test | the other program | what both lock |
//! |---|---|---|
//! | `keys` | the lock of redis-py, the Python client | a key |
//! | `keys` | redsync, in Go | a key, on one Redis or on most of five |
//! | `psql` | PostgreSQL's own command line | an advisory lock, or a row |
//! | `mariadb` | MariaDB's own command line | a `GET_LOCK`, or a row |
//!
//! Here is what the tests share: the other program as somebody to talk to. `holder.rs` is a program of
//! ours, for tests that kill it.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Nobody waits this long unless something is wrong.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A program that reads commands, a line each, and answers with lines. It ends with its input.
#[derive(Debug)]
pub struct Peer {
    process: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Peer {
    /// Starts it.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(mut command: Command) -> Self {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, answers) = channel();
        let output: Option<ChildStdout> = process.stdout.take();
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { commands: process.stdin.take(), answers, process }
    }

    /// Sends a command.
    ///
    /// # Panics
    /// If it has ended.
    pub fn send(&mut self, command: &str) {
        let commands = self.commands.as_mut().expect("it is open until it is dropped");
        writeln!(commands, "{command}").expect("it reads its commands");
    }

    /// The next line that it answers.
    ///
    /// # Panics
    /// If none comes.
    pub fn answer(&mut self) -> String {
        let answer = self.answers.recv_timeout(LIMIT);
        answer.expect("it answers").trim().to_owned()
    }

    /// Whether it has nothing to say for this long.
    ///
    /// # Panics
    /// If it has ended.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        match self.answers.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => panic!("it has ended"),
            Ok(answer) => panic!("it says {answer:?}"),
        }
    }

    /// Sends a command, and reads one line.
    ///
    /// # Panics
    /// If none comes.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.commands.take());
        // A statement that waits for a lock would keep it.
        self.kill();
    }
}
