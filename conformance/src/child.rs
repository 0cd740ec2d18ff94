//! Child processes of the cases: each runs this program with a job.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lockwright_core::{BootInstant, Clock, DistributedLock, Fence, Locks, Mode, Result, Token};
use tokio::sync::mpsc;

use crate::failure::{Failure, Verdict};
use crate::register::{Counter, RemoteRegister};

const JOB: &str = "LOCKWRIGHT_CONFORMANCE_JOB";
const ADDRESS: &str = "LOCKWRIGHT_CONFORMANCE_ADDRESS";

/// Returns a command that starts this program, in which [`main`] connects to `address`.
pub fn this_program(address: &str) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.env(ADDRESS, address);
    Some(command)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) what: What,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    pub(crate) register: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Increments the counter under the lock, `rounds` times.
    Contend { rounds: u32, counter: PathBuf },
    /// Holds the lock until lost, then writes to the register.
    Hold,
    /// Starts a waiter at each line on stdin.
    Wait,
}

impl Job {
    fn to_text(&self) -> String {
        let what = match &self.what {
            What::Contend { rounds, counter } => {
                format!("contend\t{rounds}\t{}", counter.display())
            }
            What::Hold => "hold".to_owned(),
            What::Wait => "wait".to_owned(),
        };
        format!("{}\t{}\t{}\t{what}", self.name, self.ttl.as_millis(), self.register)
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.split('\t');
        let mut next = || parts.next();
        let name = next()?.to_owned();
        let ttl = Duration::from_millis(next()?.parse().ok()?);
        let register = next()?.to_owned();
        let what = match next()? {
            "contend" => {
                What::Contend { rounds: next()?.parse().ok()?, counter: PathBuf::from(next()?) }
            }
            "hold" => What::Hold,
            "wait" => What::Wait,
            _ => return None,
        };
        Some(Self { what, name, ttl, register })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
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

impl Message {
    fn to_text(&self) -> String {
        match self {
            Self::Asking => "asking".to_owned(),
            Self::Granted { token, fence, invoked, granted } => {
                format!("granted {token} {fence} {} {}", invoked.as_nanos(), granted.as_nanos())
            }
            Self::Deadline(at) => format!("deadline {}", at.as_nanos()),
            Self::Released(at) => format!("released {}", at.as_nanos()),
            Self::Lost(at) => format!("lost {}", at.as_nanos()),
            Self::Written(accepted) => format!("written {accepted}"),
            Self::Done => "done".to_owned(),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut next = || words.next();
        let instant = |text: Option<&str>| Some(BootInstant::from_nanos(text?.parse().ok()?));
        Some(match next()? {
            "asking" => Self::Asking,
            "granted" => Self::Granted {
                token: next()?.parse().ok()?,
                fence: Fence::new(next()?.parse().ok()?),
                invoked: instant(next())?,
                granted: instant(next())?,
            },
            "deadline" => Self::Deadline(instant(next())?),
            "released" => Self::Released(instant(next())?),
            "lost" => Self::Lost(instant(next())?),
            "written" => Self::Written(next()?.parse().ok()?),
            "done" => Self::Done,
            _ => return None,
        })
    }
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
    let Some(job) = Job::of_text(&job) else {
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
    out.write_all(format!("{}\n", message.to_text()).as_bytes())?;
    out.flush()
}

async fn do_job(job: &Job, locks: &Locks) -> Verdict {
    let clock = Clock::boot();
    let mut register = RemoteRegister::connect(&job.register)?;
    let rounds = match &job.what {
        What::Contend { rounds, .. } => *rounds,
        What::Hold | What::Wait => 1,
    };
    for _ in 0..rounds {
        send(&Message::Asking)?;
        let invoked = clock.now();
        let guard = locks.mutex(&job.name).no_limit().acquire().await?;
        let (token, fence) = (guard.token(), guard.fence());
        send(&Message::Granted { token, fence, invoked, granted: clock.now() })?;
        send(&Message::Deadline(guard.deadline()))?;
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
    send(&Message::Done)?;
    Ok(())
}

async fn wait_once(locks: Locks, name: String) -> Verdict {
    let clock = Clock::boot();
    send(&Message::Asking)?;
    let invoked = clock.now();
    let guard = locks.mutex(&name).no_limit().acquire().await?;
    let (token, fence) = (guard.token(), guard.fence());
    send(&Message::Granted { token, fence, invoked, granted: clock.now() })?;
    send(&Message::Deadline(guard.deadline()))?;
    tokio::time::sleep(Duration::from_millis(5)).await;
    send(&if guard.check().is_ok() {
        Message::Released(clock.now())
    } else {
        Message::Lost(clock.now())
    })?;
    guard.release().await?;
    locks.close().await;
    Ok(())
}

pub(crate) struct Child {
    process: std::process::Child,
    message: mpsc::UnboundedReceiver<Message>,
}

impl Child {
    pub(crate) fn start(mut command: Command, job: &Job) -> std::io::Result<Self> {
        let mut process = command
            .env(JOB, job.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let (sender, message) = mpsc::unbounded_channel();
        let out = process.stdout.take().ok_or_else(|| std::io::Error::other("no stdout"))?;
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(std::result::Result::ok);
            lines
                .filter_map(|line| Message::of_text(&line))
                .all(|message| sender.send(message).is_ok())
        });
        Ok(Self { process, message })
    }

    pub(crate) fn cue(&mut self) -> std::io::Result<()> {
        let to = self.process.stdin.as_mut().ok_or_else(|| std::io::Error::other("no stdin"))?;
        to.write_all(b"\n")?;
        to.flush()
    }

    pub(crate) async fn next(&mut self, within: Duration) -> Verdict<Message> {
        match tokio::time::timeout(within, self.message.recv()).await {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Failure::new("a child ended early")),
            Err(_) => Err(Failure::new(format!("a child sent nothing for {within:?}"))),
        }
    }

    pub(crate) async fn rest(&mut self, within: Duration) -> Verdict<Vec<Message>> {
        let mut rest = Vec::new();
        loop {
            match tokio::time::timeout(within, self.message.recv()).await {
                Ok(Some(Message::Done) | None) => return Ok(rest),
                Ok(Some(message)) => rest.push(message),
                Err(_) => return Err(Failure::new(format!("a child sent nothing for {within:?}"))),
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

pub(crate) fn holds_of(who: &str, name: &str, messages: &[Message]) -> Vec<crate::history::Hold> {
    let mut holds: Vec<crate::history::Hold> = Vec::new();
    for message in messages {
        let last = holds.last_mut();
        match message {
            Message::Granted { token, fence, invoked, granted } => {
                holds.push(crate::history::Hold {
                    who: who.to_owned(),
                    name: name.to_owned(),
                    mode: Mode::Exclusive,
                    token: *token,
                    fence: *fence,
                    asked: *invoked,
                    granted: *granted,
                    until: *granted,
                });
            }
            Message::Deadline(at) => {
                if let Some(last) = last {
                    last.until = *at;
                }
            }
            Message::Released(at) | Message::Lost(at) => {
                if let Some(last) = last {
                    last.until = last.until.min(*at);
                }
            }
            Message::Asking | Message::Written(_) | Message::Done => {}
        }
    }
    holds
}

pub(crate) fn writes(messages: &[Message]) -> HashMap<bool, usize> {
    let mut writes = HashMap::new();
    for message in messages {
        if let Message::Written(accepted) = message {
            *writes.entry(*accepted).or_default() += 1;
        }
    }
    writes
}

pub(crate) fn job(what: What, name: &str, ttl: Duration, register: std::net::SocketAddr) -> Job {
    Job { what, name: name.to_owned(), ttl, register: register.to_string() }
}

pub(crate) fn contend(rounds: u32, counter: &Path) -> What {
    What::Contend { rounds, counter: counter.to_owned() }
}
