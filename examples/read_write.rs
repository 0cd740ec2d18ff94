//! Many readers share a lock. A writer excludes them.
#![forbid(unsafe_code)]

use std::time::Duration;

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    let locks = lockwright::connect("memory:").await?;
    let one = locks.read("prices").acquire().await?;
    let two = locks.read("prices").acquire().await?;
    let writer = locks.write("prices").wait_for(Duration::from_millis(50)).acquire().await;
    println!("a writer during reads: {}", if writer.is_ok() { "granted" } else { "timed out" });
    one.release().await?;
    two.release().await?;
    let writer = locks.write("prices").acquire().await?;
    let reader = locks.read("prices").try_acquire().await?;
    println!("a reader during a write: {}", if reader.is_some() { "granted" } else { "refused" });
    writer.release().await
}
