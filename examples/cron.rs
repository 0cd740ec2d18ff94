//! A job that cron starts on every machine runs on one at a time. The others skip it.
//!
//! For a job that is a command, `lockwright run -n nightly-report -- ./report.sh` is enough. With
//! `--at-least 1m`, it doesn't run again on a machine whose clock is late.
#![forbid(unsafe_code)]

use std::time::Duration;

async fn report(machine: &str) -> lockwright::Result<()> {
    let locks = lockwright::connect("memory:cron").await?; // redis://HOST, for several machines
    let Some(guard) = locks.mutex("nightly-report").try_acquire().await? else {
        println!("{machine}: another machine makes the report");
        return Ok(());
    };
    println!("{machine}: making the report");
    guard.run(tokio::time::sleep(Duration::from_millis(200))).await?;
    guard.release().await
}

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    tokio::try_join!(report("machine 1"), report("machine 2"), report("machine 3"))?;
    Ok(())
}
