//! Many who wait, in several processes.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockwright_core::{DistributedLock, Locks, Settle};
use lockwright_testbed as testbed;

use crate::kit::{claim_for, connect, eventually, grant, name, server_and_client};

const PROCESSES: usize = 4;
const WAITERS: usize = 25;
const URL: &str = "LOCKWRIGHT_TEST_URL";

/// The part that a process plays: so many wait for the lock in it, and each has it once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of other tests, played in a process of its own"]
async fn part() {
    let locks = Locks::new(connect(&std::env::var(URL).unwrap()).await).unwrap();
    let (waiting, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let (locks, waiting, served) = (locks.clone(), Arc::clone(&waiting), Arc::clone(&served));
        tasks.spawn(async move {
            waiting.fetch_add(1, Ordering::SeqCst);
            let guard = locks.mutex("a").no_limit().acquire().await.unwrap();
            served.fetch_add(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
    }
    eventually(|| async { (waiting.load(Ordering::SeqCst) == WAITERS).then_some(()) }).await;
    assert_eq!(served.load(Ordering::SeqCst), 0);
    println!("> all wait");
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    locks.close().await;
    println!("> {} were served", served.load(Ordering::SeqCst));
}

/// Another process: this test binary. Killed when dropped.
struct Process {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(server: &testbed::Redis) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "--quiet", "processes::part"])
            .env(URL, server.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// What it says next, past what the test harness prints.
    fn hear(&mut self) -> String {
        loop {
            let line = self.said.next().expect("the process ended before its time").unwrap();
            if let Some((_, said)) = line.split_once("> ") {
                return said.to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What clients asked of the server, without what scripts did for that.
fn requests(server: &testbed::Redis) -> u64 {
    let stats: String = server.command(&["INFO", "commandstats"]).unwrap();
    let asked =
        ["evalsha:", "eval:", "subscribe:", "client|caching:", "client|tracking:", "hello:"];
    let calls = |line: &str| -> Option<u64> {
        let line = line.strip_prefix("cmdstat_")?;
        asked.iter().any(|command| line.starts_with(command)).then_some(())?;
        line.split_once("calls=")?.1.split(',').next()?.parse().ok()
    };
    stats.lines().filter_map(calls).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_in_four_processes_ask_next_to_nothing() {
    let (server, holder) = server_and_client().await;
    // So long that nobody renews it meanwhile.
    let held = claim_for("a", Duration::from_secs(600));
    grant(&holder, &held).await;
    let mut processes: Vec<Process> = (0..PROCESSES).map(|_| Process::start(&server)).collect();
    for process in &mut processes {
        assert_eq!(process.hear(), "all wait");
    }
    // Of each process, the first stands in the server's queue for the others.
    eventually(|| async {
        let seen = holder.inspect(&name("a")).await.unwrap();
        (seen.waiters == Some(PROCESSES as u64)).then_some(())
    })
    .await;
    let before = requests(&server);
    assert!(before > 0, "it counts nothing");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = requests(&server) - before;
    assert!(asked <= 10, "{asked} requests in 10 s");
    holder.release(&held, Settle::Answered).await.unwrap();
    for process in &mut processes {
        assert_eq!(process.hear(), format!("{WAITERS} were served"));
    }
}
