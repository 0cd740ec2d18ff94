//! Lockwright's locks in a separate process: `interop-ours URL TTL`, with the TTL in milliseconds.
//! `peer.rs` describes the commands. Holds are renewed until they are released.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::time::Duration;

use lockwright::{ErrorKind, Guard, Locks, Result};
use tokio::sync::mpsc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, ttl] = &arguments[..] else { return Err("URL TTL".into()) };
    let ttl = Duration::from_millis(ttl.parse()?);
    let runtime = tokio::runtime::Runtime::new()?;
    let backend = runtime.block_on(lockwright::backend::open(url))?;
    let (sender, commands) = mpsc::unbounded_channel();
    let locks = Locks::builder(backend).ttl(ttl).runtime(runtime.handle().clone()).build()?;
    runtime.spawn(answer_all(locks, commands));
    for line in std::io::stdin().lock().lines() {
        sender.send(line?)?;
    }
    std::process::exit(0)
}

async fn answer_all(locks: Locks, mut commands: mpsc::UnboundedReceiver<String>) {
    let mut held = HashMap::new();
    while let Some(command) = commands.recv().await {
        let answer = answer(&locks, &mut held, &command).await;
        println!("{}", answer.map_or_else(|error| format!("failed: {error}"), str::to_owned));
    }
}

async fn answer(
    locks: &Locks,
    held: &mut HashMap<String, Guard>,
    command: &str,
) -> Result<&'static str> {
    let guard = match command.split_once(' ') {
        Some(("try", name)) => locks.mutex(name).try_acquire().await?,
        Some(("wait", name)) => Some(locks.mutex(name).acquire().await?),
        Some(("release", name)) => {
            let Some(guard) = held.remove(name) else { return Ok("not held") };
            return match guard.release().await {
                Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => Ok("not ours"),
                other => other.map(|()| "released"),
            };
        }
        _ => return Ok("no such command"),
    };
    let Some(guard) = guard else { return Ok("no") };
    held.insert(guard.name().to_string(), guard);
    Ok("yes")
}
