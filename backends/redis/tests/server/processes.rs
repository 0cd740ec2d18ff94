use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockwright_core::{DistributedLock, Locks, ReleaseMode};
use lockwright_testbed as testbed;
use tokio::task::block_in_place;

use crate::common::{calls, claim_for, connect, eventually, grant, name, server_and_client};

const PROCESSES: usize = 4;
const WAITERS: usize = 25;
const URL: &str = "LOCKWRIGHT_TEST_URL";
const SECONDS: &str = "LOCKWRIGHT_TEST_TTL";

/// The child process: each waiter acquires the lock once.
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

struct Process {
    child: Child,
    input: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(part: &str, url: &str, ttl: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "--quiet", part])
            .env(URL, url)
            .env(SECONDS, ttl.as_secs().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take().unwrap();
        Self { child, input, said }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn stop(&self) {
        let stopped = Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status();
        assert!(stopped.unwrap().success());
    }

    fn next_line(&mut self) -> String {
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

fn requests(server: &testbed::Redis) -> u64 {
    let asked = ["evalsha", "eval", "subscribe", "client|caching", "client|tracking", "hello"];
    calls(server, &asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_in_four_processes_ask_next_to_nothing() {
    let (server, holder) = server_and_client().await;
    // No renewal is due during the test.
    let held = claim_for("a", Duration::from_secs(600));
    grant(&holder, &held).await;
    let mut processes: Vec<Process> =
        (0..PROCESSES).map(|_| Process::start("processes::part", &server.url(), TTL)).collect();
    for process in &mut processes {
        assert_eq!(process.next_line(), "all wait");
    }
    // Only the first waiter of each process is in the server's queue.
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
    holder.release(&held, ReleaseMode::Plain).await.unwrap();
    for process in &mut processes {
        assert_eq!(process.next_line(), format!("{WAITERS} were served"));
    }
}

const TTL: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of other tests, played in a process of its own"]
async fn contender() {
    let locks = Locks::new(connect(&std::env::var(URL).unwrap()).await).unwrap();
    println!("> connected");
    let ttl = Duration::from_secs(std::env::var(SECONDS).unwrap().parse().unwrap());
    let guard = locks.mutex("a").ttl(ttl).no_limit().acquire().await.unwrap();
    println!("> holds");
    let mut line = String::new();
    block_in_place(|| std::io::stdin().read_line(&mut line)).unwrap();
    guard.release().await.unwrap();
    println!("> released");
    std::future::pending::<()>().await;
}

/// Starts a holder and its waiters, in queue order.
async fn contenders(url: &str, waiters: u64, ttl: Duration) -> (Process, Vec<Process>) {
    let observer = connect(url).await;
    let start = || {
        let mut process = Process::start("processes::contender", url, ttl);
        assert_eq!(process.next_line(), "connected");
        process
    };
    let mut holder = start();
    assert_eq!(holder.next_line(), "holds");
    let mut queue = Vec::new();
    for waiters in 1..=waiters {
        queue.push(start());
        eventually(|| async {
            let seen = observer.inspect(&name("a")).await.ok()?;
            (seen.waiters == Some(waiters)).then_some(())
        })
        .await;
    }
    if ttl == TTL {
        // Wait until each waiter has retried after the TTL in its reply.
        tokio::time::sleep(TTL * 3).await;
    }
    (holder, queue)
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_die_in_a_row_cost_one_offer_each() {
    let server = testbed::Redis::start().unwrap();
    let (mut holder, mut queue) = contenders(&server.url(), 8, TTL).await;
    let (last, dead) = queue.split_last_mut().unwrap();
    dead.iter().for_each(Process::stop);
    let died = Instant::now();
    holder.kill();
    assert_eq!(last.next_line(), "holds");
    // The dead holder's TTL, an offer's per dead waiter, and one second.
    assert!(died.elapsed() <= TTL * 8 + Duration::from_secs(1), "late: {:?}", died.elapsed());
}

/// The client whose release made the offer dies before the offer lapses. With a long TTL, the
/// waiters' last replies show the released hold with most of it left. They must not wait for that.
#[tokio::test(flavor = "multi_thread")]
async fn dead_releaser_costs_one_offer() {
    const OFFER: Duration = Duration::from_secs(2);

    let server = testbed::Redis::start().unwrap();
    for ttl in [TTL, Duration::from_secs(60)] {
        let (mut holder, mut queue) = contenders(&server.url(), 2, ttl).await;
        queue[0].stop();
        holder.input.write_all(b"release\n").unwrap();
        assert_eq!(holder.next_line(), "released");
        let died = Instant::now();
        holder.kill();
        assert_eq!(queue[1].next_line(), "holds");
        assert!(died.elapsed() <= OFFER + Duration::from_secs(1), "late: {:?}", died.elapsed());
        server.command::<()>(&["FLUSHALL"]).unwrap();
    }
}
