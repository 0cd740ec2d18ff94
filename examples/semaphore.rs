//! At most three of ten downloads run at a time.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    let locks = lockwright::connect("memory:").await?;
    let running = Arc::new(AtomicUsize::new(0));
    let mut downloads = JoinSet::new();
    for _ in 0..10 {
        let (locks, running) = (locks.clone(), Arc::clone(&running));
        downloads.spawn(async move {
            let download = locks.semaphore("downloads", 3).with(async move |_permit| {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                now
            });
            download.await
        });
    }
    let mut most = 0;
    for running in downloads.join_all().await {
        most = most.max(running?);
    }
    println!("at most {most} at a time");
    Ok(())
}
