//! Lockwright with its defaults and one client.
#![forbid(unsafe_code)]

use std::time::Duration;

use lockwright::{Guard, Locks};
use lockwright_bench_protocol::{Handshake, Library, Result, serve};

const HANDSHAKE: Handshake = Handshake {
    name: "lockwright",
    library: concat!("lockwright ", env!("CARGO_PKG_VERSION")),
    runtime: "tokio, one thread",
    backends: &[
        "memory",
        "sqlite",
        "postgres-lease",
        "postgres-session",
        "postgres-row",
        "mysql-lease",
        "mysql-session",
        "mysql-row",
        "redis",
        "redis-sentinel",
        "redis-cluster",
        "redlock-5",
        "etcd",
        "zookeeper",
    ],
    notes: &[],
};

struct Ours {
    locks: Locks,
}

impl Library for Ours {
    type Hold = Guard;

    async fn open(backend: &str, urls: &[String]) -> Result<Self> {
        let [url] = urls else { return Err("lockwright needs one URL".into()) };
        if backend == "redlock-5" {
            // Lets new servers vote at once, which is safe: they never stored a lock.
            lockwright::operator::admit(url).await?;
        }
        Ok(Self { locks: lockwright::connect(url).await? })
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<Guard> {
        Ok(self.locks.mutex(name).ttl(ttl).acquire().await?)
    }

    async fn unlock(&self, guard: Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

fn main() {
    serve::<Ours>(&HANDSHAKE);
}
