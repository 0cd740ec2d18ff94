//! A holder is suspended for longer than its TTL, and writes after the next holder. The service
//! rejects this late write.
//!
//! ```text
//! cargo run --example late_write [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

mod service;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use lockwright::{Error, LockName, Result};
use rustix::process::{Pid, Signal, kill_process};

use service::{Service, put};
use support::{io, told};

const NAME: &str = "example/report";
const TTL: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let runtime = support::runtime()?;
    match std::env::var("LATE_WRITE_WRITER") {
        Ok(text) => runtime.block_on(writer(&text)),
        Err(_) => late_write(&runtime),
    }
}

async fn writer(text: &str) -> Result<()> {
    let locks = lockwright::connect(&told("LATE_WRITE_URL")?).await?;
    let guard = locks.mutex(NAME).ttl(TTL).acquire().await?;
    println!("holds with fence {}", guard.fence());
    // The wait simulates a delay between a check of the lock and the protected write.
    std::io::stdin().read_line(&mut String::new()).map_err(io)?;
    let answer = put(&told("LATE_WRITE_SERVICE")?, &guard.fenced(), text).map_err(io)?;
    println!("{answer}");
    let _ = guard.release().await;
    Ok(())
}

fn late_write(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let (_folder, url) = support::place()?;
    let service = runtime.block_on(Service::start(LockName::new(NAME)?)).map_err(io)?;

    let mut first = Writer::start("of the first", &url, &service)?;
    println!("the first   {}", first.line()?);
    first.signal(Signal::STOP)?;
    println!("the first   is stopped");

    let mut second = Writer::start("of the second", &url, &service)?;
    println!("the second  {}", second.line()?);
    second.go_on()?;
    println!("the second  writes: {}", second.line()?);

    first.go_on()?;
    first.signal(Signal::CONT)?;
    let answer = first.line()?;
    println!("the first   continues and writes: {answer}");

    println!("the text is {:?}", service.text());
    if !answer.starts_with("412") || service.text() != "of the second" {
        return Err(Error::invalid_input("the late write should have been refused"));
    }
    println!("the late write was refused");
    Ok(())
}

struct Writer {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Writer {
    fn start(text: &str, url: &str, service: &Service) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe().map_err(io)?)
            .env("LATE_WRITE_WRITER", text)
            .env("LATE_WRITE_URL", url)
            .env("LATE_WRITE_SERVICE", service.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io)?;
        let said = BufReader::new(child.stdout.take().expect("its output is piped"));
        Ok(Self { child, said })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.said.read_line(&mut line).map_err(io)? {
            0 => Err(Error::unavailable("a writer ended before it was done")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    fn go_on(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().expect("its input is piped");
        writeln!(input).map_err(io)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| io(error.into()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
