//! Many readers share a lock. A writer has it alone.
#![forbid(unsafe_code)]

use std::time::Duration;

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    let locks = lockwright::connect("memory:").await?;
    let one = locks.read("prices").acquire().await?;
    let two = locks.read("prices").acquire().await?;
    let writer = locks.write("prices").wait_for(Duration::from_millis(50)).acquire().await;
    println!("a writer beside readers: {}", if writer.is_ok() { "granted" } else { "timed out" });
    one.release().await?;
    two.release().await?;
    let writer = locks.write("prices").acquire().await?;
    let reader = locks.read("prices").try_acquire().await?;
    println!(
        "a reader beside the writer: {}",
        if reader.is_some() { "granted" } else { "refused" }
    );
    writer.release().await
}
