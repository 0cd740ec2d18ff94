//! rslock: Redlock on redis-rs.
#![forbid(unsafe_code)]

use std::time::Duration;

use lockwright_bench_peers::library;
use lockwright_bench_protocol::{Library, Handshake, Result, serve};
use rslock::{LockGuard, LockManager};

struct Rslock {
    manager: LockManager,
}

impl Library for Rslock {
    type Hold = LockGuard;

    async fn open(backend: &str, urls: &[String]) -> Result<Self> {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let manager = match backend {
            "redis-cluster" => LockManager::new_cluster(urls)?,
            _ => LockManager::new(urls),
        };
        // The manager connects at its first acquire.
        let name = format!("open/{}", std::process::id());
        manager.acquire(&*name, Duration::from_secs(1)).await?.release().await;
        Ok(Self { manager })
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<LockGuard> {
        Ok(self.manager.acquire(name, ttl).await?)
    }

    async fn unlock(&self, guard: LockGuard) -> Result<()> {
        guard.release().await;
        Ok(())
    }

    async fn renew(&self, guards: &[LockGuard], ttl: Duration) -> Result<()> {
        for guard in guards {
            self.manager.extend(&guard.lock, ttl).await?;
        }
        Ok(())
    }
}

fn main() {
    serve::<Rslock>(&Handshake {
        name: "rslock",
        library: library("rslock"),
        runtime: "tokio, one thread",
        backends: &["redis", "redlock-5", "redis-cluster"],
        notes: &[
            "no watchdog: held locks are extended one by one, at a third of the TTL",
            "its release doesn't report whether the lock was still held",
        ],
    });
}
