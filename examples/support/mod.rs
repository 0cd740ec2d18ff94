#![allow(dead_code, reason = "no example needs all of it")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use lockwright::ErrorKind;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn place() -> Result<(TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let url = match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [] => format!("sqlite:{}", folder.path().join("locks.db").display()),
        [option, url] if option == "--url" => url.clone(),
        _ => return Err("it takes --url URL, or nothing".into()),
    };
    Ok((folder, url))
}

pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

pub(crate) fn told(name: &str) -> Result<String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// Turns an unanswered release into success, because the client repeats it.
pub(crate) fn released(outcome: lockwright::Result<()>) -> Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::Indeterminate => Ok(()),
        outcome => Ok(outcome?),
    }
}

pub(crate) async fn until<F: Future<Output = bool>>(
    what: &str,
    mut done: impl FnMut() -> F,
) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    while !done().await {
        if Instant::now() > limit {
            return Err(format!("{what} takes too long").into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Waits until all processes have started, see [`Processes::start_together`].
pub(crate) fn start_together() -> Result<()> {
    println!("ready");
    Ok(std::io::stdin().read_line(&mut String::new()).map(drop)?)
}

pub(crate) struct Processes {
    children: Vec<Child>,
    lines: Receiver<(usize, String)>,
    sender: Sender<(usize, String)>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    pub(crate) fn new() -> Self {
        let (sender, lines) = channel();
        Self { children: Vec::new(), lines, sender }
    }

    pub(crate) fn start(&mut self, variables: &[(&str, &str)]) -> Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = child.stdout.take().expect("its output is piped");
        let (number, sender) = (self.children.len(), self.sender.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(std::result::Result::ok) {
                let _ = sender.send((number, line));
            }
        });
        self.children.push(child);
        Ok(())
    }

    /// Waits until each process calls [`start_together`], and lets them continue.
    pub(crate) fn start_together(&mut self) -> Result<()> {
        for _ in &self.children {
            self.next()?;
        }
        (0..self.children.len()).try_for_each(|number| self.go_on(number))
    }

    pub(crate) fn go_on(&mut self, number: usize) -> Result<()> {
        let input = self.children[number].stdin.as_mut().expect("its input is piped");
        Ok(writeln!(input)?)
    }

    pub(crate) fn next(&self) -> Result<(usize, String)> {
        let said = self.lines.recv_timeout(LIMIT);
        said.map_err(|_| "no process said anything for a minute".into())
    }

    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        Ok(self.children[number].kill()?)
    }

    pub(crate) fn signal(&self, number: usize, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.children[number]);
        Ok(kill_process(pid, signal)?)
    }

    pub(crate) fn wait(&mut self, killed: Option<usize>) -> Result<()> {
        for (number, child) in self.children.iter_mut().enumerate() {
            let status = child.wait()?;
            if !status.success() && Some(number) != killed {
                return Err(format!("process {number} ended with {status}").into());
            }
        }
        Ok(())
    }
}
