//! Holds a lock of ours until its input ends, for tests that kill it: `interop-holder URL NAME TTL`,
//! the TTL in milliseconds. Says "held" once it has it, and renews it from then on.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{DistributedLock, Locks};
use lockwright_redis::Redis;
use lockwright_redlock::Redlock;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl] = &arguments[..] else { return Err("URL NAME TTL".into()) };
    let ttl = Duration::from_millis(ttl.parse()?);
    // It goes on by itself while this thread reads.
    let runtime = tokio::runtime::Runtime::new()?;
    let guard = runtime.block_on(async {
        let backend: Arc<dyn DistributedLock> = if url.starts_with("redlock:") {
            Arc::new(Redlock::connect(url).await?)
        } else {
            Arc::new(Redis::connect(url).await?)
        };
        let locks = Locks::builder(backend).ttl(ttl).build()?;
        locks.mutex(name).acquire().await
    })?;
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    runtime.block_on(guard.release())?;
    Ok(())
}
