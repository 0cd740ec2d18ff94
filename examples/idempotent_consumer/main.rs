//! A queue delivers each message at least once, but each message takes effect exactly once.
//!
//! ```text
//! cargo run --example idempotent_consumer [--features redis -- --url redis://127.0.0.1/]
//! ```
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockwright::Locks;
use support::{Processes, Result, released, told};

const PROCESSES: usize = 4;
const MESSAGES: usize = 40;
const TTL: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    match std::env::var("CONSUMER") {
        Ok(number) => support::runtime()?.block_on(consumer(&number)),
        Err(_) => idempotent_consumer(),
    }
}

async fn consumer(number: &str) -> Result<()> {
    let ledger = PathBuf::from(told("CONSUMER_LEDGER")?);
    let locks = match told("CONSUMER_LOCKS")? {
        url if url.is_empty() => None,
        url => Some(lockwright::connect(&url).await?),
    };
    support::start_together()?;
    for message in 0..MESSAGES {
        let dies = number == "0" && message == MESSAGES / 2;
        match &locks {
            None => handle(&ledger, message, false).await?,
            Some(locks) => handle_once(locks, &ledger, message, dies).await?,
        }
    }
    println!("done");
    std::future::pending().await
}

/// The lock keeps other processes from acting between the ledger's check and its new entry.
async fn handle_once(locks: &Locks, ledger: &Path, message: usize, dies: bool) -> Result<()> {
    let guard = locks.mutex(format!("message/{message}")).ttl(TTL).acquire().await?;
    guard.run(handle(ledger, message, dies)).await??;
    released(guard.release().await)
}

async fn handle(ledger: &Path, message: usize, dies: bool) -> Result<()> {
    let done = fs::read_to_string(ledger)?;
    if done.lines().any(|line| line == message.to_string()) {
        return Ok(());
    }
    if dies {
        println!("works on {message}");
        return std::future::pending().await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut ledger = OpenOptions::new().append(true).open(ledger)?;
    Ok(ledger.write_all(format!("{message}\n").as_bytes())?)
}

fn idempotent_consumer() -> Result<()> {
    let (folder, url) = support::place()?;
    let without = deliver(folder.path(), "")?;
    let twice = without.values().filter(|times| **times > 1).count();
    println!("without the lock: {twice} of {MESSAGES} messages took effect more than once");
    if twice == 0 {
        return Err("nothing went wrong without it, so this run showed nothing".into());
    }
    let with = deliver(folder.path(), &url)?;
    let once = with.values().filter(|times| **times == 1).count();
    println!("with the lock:    {once} of {MESSAGES} messages took effect once");
    if once != MESSAGES || with.len() != MESSAGES {
        return Err("each should have taken effect exactly once".into());
    }
    println!("each of {MESSAGES} messages took effect exactly once");
    Ok(())
}

fn deliver(folder: &Path, locks: &str) -> Result<BTreeMap<String, usize>> {
    let ledger = folder.join("ledger");
    fs::write(&ledger, "")?;
    let mut processes = Processes::new();
    for number in 0..PROCESSES {
        processes.start(&[
            ("CONSUMER", &number.to_string()),
            ("CONSUMER_LEDGER", &ledger.display().to_string()),
            ("CONSUMER_LOCKS", locks),
        ])?;
    }
    processes.start_together()?;
    for _ in 0..PROCESSES {
        let (number, line) = processes.next()?;
        if line != "done" {
            println!("process {number} {line}, and is killed");
            processes.kill(number)?;
        }
    }
    drop(processes);
    let mut effects = BTreeMap::new();
    for line in fs::read_to_string(&ledger)?.lines() {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    Ok(effects)
}
