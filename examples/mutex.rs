//! Forty buyers request ten items: no item is sold twice.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::task::{JoinSet, yield_now};

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    // For processes on several machines: redis://HOST, postgres://..., with that feature.
    let locks = lockwright::connect("memory:").await?;
    let stock = Arc::new(AtomicU32::new(10));
    let mut buyers = JoinSet::new();
    for _ in 0..40 {
        let (locks, stock) = (locks.clone(), Arc::clone(&stock));
        buyers.spawn(async move {
            let buying = locks.mutex("stock").with(async move |_guard| {
                let left = stock.load(Ordering::SeqCst);
                yield_now().await; // another buyer could read the same number now
                stock.store(left.saturating_sub(1), Ordering::SeqCst);
                left > 0
            });
            buying.await
        });
    }
    let mut sold = 0;
    for bought in buyers.join_all().await {
        sold += u32::from(bought?);
    }
    println!("{sold} sold, {} left", stock.load(Ordering::SeqCst));
    Ok(())
}
