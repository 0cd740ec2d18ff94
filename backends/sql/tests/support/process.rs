use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const ROLE: &str = "LOCKWRIGHT_TEST_ROLE";

/// A child process that runs an `#[ignore]`d test, with its role in an environment variable.
pub(crate) struct Process {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

pub(crate) fn this_binary() -> Command {
    Command::new(std::env::current_exe().unwrap())
}

impl Process {
    pub(crate) fn start(
        mut command: Command,
        test: &str,
        role: &str,
        variables: &[(&str, &OsStr)],
    ) -> Self {
        let mut child = command
            .args(["--ignored", "--exact", "--nocapture", "--quiet", test])
            .env(ROLE, role)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, to, from }
    }

    /// Returns the next message of the child, without the output of the test harness.
    pub(crate) fn next_line(&mut self) -> String {
        loop {
            let line = self.from.next().expect("the process says something").unwrap();
            if let Some(said) = line.split_once("> ").map(|(_, said)| said) {
                return said.to_owned();
            }
        }
    }

    pub(crate) fn go_on(&mut self) {
        self.to.write_all(b"\n").unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn finish(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn print(what: impl std::fmt::Display) {
    println!("> {what}");
}

pub(crate) fn listen() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
