//! Three candidates: one leads at a time, and the next one follows when it resigns.
#![forbid(unsafe_code)]

use std::time::Duration;

use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> lockwright::Result<()> {
    let mut candidates = JoinSet::new();
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(String::from) {
        let locks = lockwright::connect("memory:election").await?; // etcd:..., for several machines
        candidates.spawn(async move {
            let election = locks.election("scheduler");
            // After a loss of the leadership, `lead` campaigns again and calls the closure again.
            let leading = election.lead(address.clone(), async move |leadership| {
                println!("{address} leads with fence {}", leadership.fence());
                tokio::time::sleep(Duration::from_millis(50)).await;
            });
            leading.await
        });
    }
    for led in candidates.join_all().await {
        led?;
    }
    println!("each led once");
    Ok(())
}
