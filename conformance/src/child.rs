//! Child processes of the cases: each runs this program with a job.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lockwright_core::{
    BootInstant, Clock, DistributedLock, Fence, Guard, Locks, Mode, Result, Token,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::context::Context;
use crate::failure::{Failure, Verdict};
use crate::history::Hold;
use crate::register::{Counter, Register, RemoteRegister};

const JOB: &str = "LOCKWRIGHT_CONFORMANCE_JOB";
const ADDRESS: &str = "LOCKWRIGHT_CONFORMANCE_ADDRESS";

/// Returns a command that starts this program, in which [`main`] connects to `address`.
pub fn this_program(address: &str) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.env(ADDRESS, address);
    Some(command)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Job {
    what: What,
    name: String,
    ttl: Duration,
    register: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// Increments the counter under the lock, `rounds` times.
    Contend { rounds: u32, counter: PathBuf },
    /// Holds the lock until lost, then writes to the register.
    Hold,
    /// Starts a waiter at each line on stdin.
    Wait,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    Asking,
    Granted {
        token: Token,
        fence: Fence,
        invoked: BootInstant,
        granted: BootInstant,
    },
    /// The hold's deadline. The hold may end earlier.
    Deadline(BootInstant),
    Released(BootInstant),
    Lost(BootInstant),
    Written(bool),
    Done,
}

/// Performs the job of a child process. Returns `None` if this process isn't a child.
///
/// Call this function first in `main`, outside a runtime. `connect` receives the address given to
/// [`this_program`], or an empty string.
pub fn main<F, B>(connect: impl Fn(String) -> F) -> Option<ExitCode>
where
    F: Future<Output = Result<B>>,
    B: DistributedLock,
{
    let job = std::env::var(JOB).ok()?;
    let address = std::env::var(ADDRESS).unwrap_or_default();
    // When the parent ends, stdin is closed, and the child exits.
    let (cue, mut cues) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(std::result::Result::ok) {
            let _ = cue.send(());
        }
        std::process::exit(0);
    });
    let Ok(job) = serde_json::from_str::<Job>(&job) else {
        eprintln!("{JOB} can't be understood: {job:?}");
        return Some(ExitCode::FAILURE);
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            let client = async || {
                let builder = Locks::builder(connect(address.clone()).await?).ttl(job.ttl);
                builder.clock(Clock::boot()).label("conformance child").build()
            };
            let locks = client().await?;
            if job.what == What::Wait {
                while cues.recv().await.is_some() {
                    tokio::spawn(wait_once(client().await?, job.name.clone()));
                }
            }
            let done = do_job(&job, &locks).await;
            locks.close().await;
            done
        })
    });
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    })
}

fn send(message: &Message) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(message)?)?;
    out.flush()
}

async fn acquire(locks: &Locks, name: &str) -> Verdict<Guard> {
    let clock = Clock::boot();
    send(&Message::Asking)?;
    let invoked = clock.now();
    let guard = locks.mutex(name).no_limit().acquire().await?;
    let (token, fence) = (guard.token(), guard.fence());
    send(&Message::Granted { token, fence, invoked, granted: clock.now() })?;
    send(&Message::Deadline(guard.deadline()))?;
    Ok(guard)
}

async fn do_job(job: &Job, locks: &Locks) -> Verdict {
    let clock = Clock::boot();
    let mut register = RemoteRegister::connect(&job.register)?;
    let rounds = match &job.what {
        What::Contend { rounds, .. } => *rounds,
        What::Hold | What::Wait => 1,
    };
    for _ in 0..rounds {
        let guard = acquire(locks, &job.name).await?;
        let fence = guard.fence();
        match &job.what {
            What::Contend { counter, .. } => {
                Counter::add_one(counter)?;
                send(&Message::Written(register.write(fence)?))?;
                send(&Message::Released(clock.now()))?;
                guard.release().await?;
            }
            What::Hold | What::Wait => {
                let mut recorded = guard.deadline();
                while guard.check().is_ok() {
                    if guard.deadline() != recorded {
                        recorded = guard.deadline();
                        send(&Message::Deadline(recorded))?;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                send(&Message::Lost(clock.now()))?;
                send(&Message::Written(register.write(fence)?))?;
            }
        }
    }
    Ok(send(&Message::Done)?)
}

async fn wait_once(locks: Locks, name: String) -> Verdict {
    let guard = acquire(&locks, &name).await?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let ended = if guard.check().is_ok() { Message::Released } else { Message::Lost };
    send(&ended(Clock::boot().now()))?;
    guard.release().await?;
    locks.close().await;
    Ok(())
}

pub(crate) struct Child {
    process: std::process::Child,
    message: mpsc::UnboundedReceiver<Message>,
}

impl Child {
    /// Starts a process that does `what` with the lock `x`.
    pub(crate) fn start(
        context: &Context,
        what: What,
        ttl: Duration,
        register: &Register,
    ) -> Verdict<Self> {
        let command = context.factory.child();
        let mut command =
            command.ok_or_else(|| Failure::new("the factory has no child process"))?;
        let (name, register) = (context.name("x").to_string(), register.serve()?.to_string());
        let job = serde_json::to_string(&Job { what, name, ttl, register });
        let mut process = command
            .env(JOB, job.expect("a job is valid JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let (sender, message) = mpsc::unbounded_channel();
        let out = process.stdout.take().ok_or_else(|| std::io::Error::other("no stdout"))?;
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(std::result::Result::ok);
            lines
                .filter_map(|line| serde_json::from_str::<Message>(&line).ok())
                .all(|message| sender.send(message).is_ok())
        });
        Ok(Self { process, message })
    }

    pub(crate) fn cue(&mut self) -> std::io::Result<()> {
        let to = self.process.stdin.as_mut().ok_or_else(|| std::io::Error::other("no stdin"))?;
        to.write_all(b"\n")?;
        to.flush()
    }

    async fn receive(&mut self, within: Duration) -> Verdict<Option<Message>> {
        let received = tokio::time::timeout(within, self.message.recv()).await;
        received.map_err(|_| Failure::new(format!("a child sent nothing for {within:?}")))
    }

    pub(crate) async fn next(&mut self, within: Duration) -> Verdict<Message> {
        self.receive(within).await?.ok_or_else(|| Failure::new("a child ended early"))
    }

    pub(crate) async fn rest(&mut self, within: Duration) -> Verdict<Vec<Message>> {
        let mut rest = Vec::new();
        loop {
            match self.receive(within).await? {
                Some(Message::Done) | None => return Ok(rest),
                Some(message) => rest.push(message),
            }
        }
    }

    pub(crate) fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }

    #[cfg(unix)]
    pub(crate) fn freeze(&self) -> std::io::Result<()> {
        self.signal(rustix::process::Signal::STOP)
    }

    #[cfg(unix)]
    pub(crate) fn thaw(&self) -> std::io::Result<()> {
        self.signal(rustix::process::Signal::CONT)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> std::io::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.process);
        Ok(rustix::process::kill_process(pid, signal)?)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn holds_of(who: &str, messages: &[Message]) -> Vec<Hold> {
    let mut holds: Vec<Hold> = Vec::new();
    for message in messages {
        match (message, holds.last_mut()) {
            (&Message::Granted { token, fence, invoked: asked, granted }, _) => {
                let (who, name, mode) = (who.to_owned(), "x".to_owned(), Mode::Exclusive);
                let until = granted;
                holds.push(Hold { who, name, mode, token, fence, asked, granted, until });
            }
            (&Message::Deadline(at), Some(last)) => last.until = at,
            (&(Message::Released(at) | Message::Lost(at)), Some(last)) => {
                last.until = last.until.min(at);
            }
            _ => {}
        }
    }
    holds
}

pub(crate) fn refused_writes(messages: &[Message]) -> usize {
    messages.iter().filter(|message| **message == Message::Written(false)).count()
}
