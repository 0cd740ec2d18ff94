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

use std::time::Duration;

use lockwright::LockName;
use rustix::process::Signal;

use service::{Service, put};
use support::{Processes, Result, told};

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
    // Simulates a delay between a check of the lock and the protected write.
    std::io::stdin().read_line(&mut String::new())?;
    let answer = put(&told("LATE_WRITE_SERVICE")?, &guard.fenced(), text)?;
    println!("{answer}");
    let _ = guard.release().await;
    Ok(())
}

fn late_write(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let (_folder, url) = support::place()?;
    let service = runtime.block_on(Service::start(LockName::new(NAME)?))?;

    let mut writers = Processes::new();
    let address = service.address().to_string();
    let variables = |text| {
        [("LATE_WRITE_WRITER", text), ("LATE_WRITE_URL", &*url), ("LATE_WRITE_SERVICE", &*address)]
    };
    writers.start(&variables("of the first"))?;
    println!("the first   {}", writers.next()?.1);
    writers.signal(0, Signal::STOP)?;
    println!("the first   is stopped");

    writers.start(&variables("of the second"))?;
    println!("the second  {}", writers.next()?.1);
    writers.go_on(1)?;
    println!("the second  writes: {}", writers.next()?.1);

    writers.go_on(0)?;
    writers.signal(0, Signal::CONT)?;
    let (_, answer) = writers.next()?;
    println!("the first   continues and writes: {answer}");

    println!("the text is {:?}", service.text());
    if !answer.starts_with("412") || service.text() != "of the second" {
        return Err("the late write should have been refused".into());
    }
    println!("the late write was refused");
    Ok(())
}
