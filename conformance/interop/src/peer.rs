use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::LIMIT;

/// A program that answers commands with lines, and exits when its input ends:
///
/// ```text
/// try NAME          one attempt: "yes" or "no"
/// wait NAME         waits for as long as it takes: "yes", or "no" when its session ends
/// release NAME      "released", or "not ours" when the hold was lost before
/// ```
///
/// With a library for Redis, the name is followed by a TTL, and in `wait` by a TTL and a limit, in
/// seconds. `extend NAME SECONDS` is answered "extended" or "not ours". Any other failure is
/// answered "failed: " and the reason.
#[derive(Debug)]
pub struct Peer {
    process: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Peer {
    /// Starts the program.
    pub fn start(mut command: Command) -> Self {
        // The program gets its own process group, so that signals reach its children.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
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
    pub fn send(&mut self, command: &str) {
        let commands = self.commands.as_mut().expect("the input is open until the drop");
        writeln!(commands, "{command}").expect("the process reads commands");
    }

    /// Returns the next answer. Panics if none comes within [`LIMIT`].
    pub fn answer(&mut self) -> String {
        let answer = self.answers.recv_timeout(LIMIT);
        answer.expect("the process answers").trim().to_owned()
    }

    /// Returns true if no answer comes within `time`. Panics otherwise.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        match self.answers.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => panic!("the process has ended"),
            Ok(answer) => panic!("the process answered early: {answer:?}"),
        }
    }

    /// Sends a command, and returns its answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.answer()
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        // A program that has exited gets no signal, because another process may have its id.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.process.wait();
        }
    }

    /// Suspends the program, with open connections.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the suspended program.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.commands.take());
        // An SQL client with a waiting statement doesn't exit when its input ends.
        self.kill();
    }
}
