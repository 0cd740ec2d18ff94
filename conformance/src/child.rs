//! Child processes of the cases. Each runs this program with a job, and writes its journal to
//! stdout.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Locks, Mode, Result};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::context::Context;
use crate::failure::{Failure, Verdict, given};
use crate::history::journal::{Entry, Event, Journal};
use crate::register::{Counter, Register};
use crate::workload::held::{Held, Holding};
use crate::workload::{RemoteStore, Store};

const JOB: &str = "LOCKWRIGHT_CONFORMANCE_JOB";
const ADDRESS: &str = "LOCKWRIGHT_CONFORMANCE_ADDRESS";
const NAME: &str = "x";
const SILENCE: Duration = Duration::from_secs(60);

fn this_program(address: &str) -> Option<Command> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.env(ADDRESS, address);
    Some(command)
}

#[derive(Debug, Serialize, Deserialize)]
struct Job {
    what: What,
    namespace: String,
    ttl: Duration,
    register: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    /// Increments the counter under the lock, `rounds` times.
    Contend { rounds: u64, counter: PathBuf },
    /// Holds the lock until lost, then writes to the register.
    Hold,
    /// Uses the lock several times, and keeps it warm.
    KeepWarm,
    /// Starts a waiter at each line on stdin.
    Wait,
}

/// Performs the job of a child process. Returns `None` in another process. Call it first in `main`,
/// outside a runtime. `connect` receives the factory's URL.
pub fn main<F, B>(connect: impl Fn(String) -> F) -> Option<ExitCode>
where
    F: Future<Output = Result<B>>,
    B: DistributedLock,
{
    let job = std::env::var(JOB).ok()?;
    let address = std::env::var(ADDRESS).unwrap_or_default();
    // Stdin is closed when the parent ends, and the child exits.
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
                let builder = builder.clock(Clock::boot()).namespace(&*job.namespace);
                let builder = match job.what {
                    What::KeepWarm => builder.keep_warm(job.ttl),
                    _ => builder,
                };
                builder.label("conformance child").build()
            };
            let journal = Journal::to_stdout(&format!("process {}", std::process::id()));
            if job.what == What::Wait {
                let mut request = 0;
                while cues.recv().await.is_some() {
                    tokio::spawn(wait_once(client().await?, journal.clone(), request));
                    request += 1;
                }
            }
            let locks = client().await?;
            let done = do_job(&job, &locks, &journal).await;
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

pub(crate) async fn acquire(locks: &Locks, journal: &Journal, request: u64) -> Verdict<Holding> {
    let (name, mode) = (NAME.to_owned(), Mode::Exclusive);
    journal.write(Event::Asked { request, name, mode, waits: true, owner: None });
    let guard = locks.mutex(NAME).no_limit().acquire().await?;
    Ok(Holding::granted(Held::Guard(guard), request, journal, false))
}

async fn do_job(job: &Job, locks: &Locks, journal: &Journal) -> Verdict {
    let register = RemoteStore::connect(&job.register)?;
    let rounds = match &job.what {
        What::Contend { rounds, .. } => *rounds,
        What::KeepWarm => 3,
        What::Hold | What::Wait => 1,
    };
    for round in 0..rounds {
        let holding = acquire(locks, journal, round).await?;
        let late = match &job.what {
            What::Contend { counter, .. } => {
                Counter::add_one(counter)?;
                false
            }
            What::KeepWarm => false,
            What::Hold | What::Wait => {
                while holding.is_valid() {
                    sleep(Duration::from_millis(5)).await;
                }
                true
            }
        };
        let (token, fence) = (holding.held().token(), holding.held().fence());
        let accepted = register.write(NAME, fence)?;
        journal.write(Event::Wrote { token, fence, accepted, late });
        if !late {
            holding.release().await?;
        }
    }
    journal.write(Event::Ended);
    if job.what == What::KeepWarm {
        // The client's end would release the lock.
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn wait_once(locks: Locks, journal: Journal, request: u64) -> Verdict {
    let holding = acquire(&locks, &journal, request).await?;
    sleep(Duration::from_millis(5)).await;
    holding.is_valid();
    holding.release().await?;
    locks.close().await;
    Ok(())
}

pub(crate) struct Child {
    process: std::process::Child,
    entries: mpsc::UnboundedReceiver<Entry>,
}

impl Child {
    pub(crate) fn start(
        context: &Context,
        what: What,
        ttl: Duration,
        register: &Register,
    ) -> Verdict<Self> {
        let program = context.factory.address.as_deref().and_then(this_program);
        let mut command = given(program, "there is no URL or program for a child")?;
        let (namespace, register) = (context.root.clone(), register.serve()?.to_string());
        let job = serde_json::to_string(&Job { what, namespace, ttl, register });
        let mut process = command
            .env(JOB, job.expect("a job is valid JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let (sender, entries) = mpsc::unbounded_channel();
        let out = given(process.stdout.take(), "a child has no stdout")?;
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(std::result::Result::ok);
            lines
                .filter_map(|line| serde_json::from_str(&line).ok())
                .all(|entry| sender.send(entry).is_ok())
        });
        Ok(Self { process, entries })
    }

    pub(crate) fn cue(&mut self) -> Verdict {
        let to = given(self.process.stdin.as_mut(), "a child has no stdin")?;
        to.write_all(b"\n")?;
        Ok(to.flush()?)
    }

    /// Receives entries until `is` is true for `count` of them, and returns all.
    pub(crate) async fn until(
        &mut self,
        count: usize,
        is: impl Fn(&Event) -> bool,
    ) -> Verdict<Vec<Entry>> {
        let (mut entries, mut left) = (Vec::new(), count);
        while left > 0 {
            let received = timeout(SILENCE, self.entries.recv()).await;
            let silent = |_| Failure::new(format!("a child sent nothing for {SILENCE:?}"));
            let entry = given(received.map_err(silent)?, "a child ended early")?;
            left -= usize::from(is(&entry.event));
            entries.push(entry);
        }
        Ok(entries)
    }

    pub(crate) async fn until_granted(&mut self) -> Verdict<Vec<Entry>> {
        self.until(1, |event| matches!(event, Event::Granted { .. })).await
    }

    pub(crate) async fn rest(&mut self) -> Verdict<Vec<Entry>> {
        self.until(1, |event| *event == Event::Ended).await
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
