//! distributed-lock-mysql: `GET_LOCK`, on sqlx.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_mysql::{MySqlLockHandle, MySqlLockProvider};
use lockwright_bench_peers::library;
use lockwright_bench_protocol::{Cannot, Library, Handshake, Result, serve};
use sqlx::mysql::MySqlPoolOptions;

const CONNECTIONS: u32 = 32;

/// Longer than any measurement.
const LIMIT: Duration = Duration::from_secs(3600);

struct Dlock {
    provider: MySqlLockProvider,
    taken: Cell<u32>,
}

impl Library for Dlock {
    type Hold = MySqlLockHandle;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let [url] = urls else { return Err("it needs one URL".into()) };
        let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        let provider = MySqlLockProvider::builder().pool(pool).build().await?;
        Ok(Self { provider, taken: Cell::new(0) })
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<MySqlLockHandle> {
        self.taken.set(self.taken.get() + 1);
        Ok(self.provider.create_lock(name).acquire(Some(LIMIT)).await?)
    }

    async fn unlock(&self, handle: MySqlLockHandle) -> Result<()> {
        handle.release().await?;
        self.taken.set(self.taken.get() - 1);
        Ok(())
    }

    async fn keep(&self, name: &str, ttl: Duration) -> Result<MySqlLockHandle> {
        if self.taken.get() >= CONNECTIONS {
            return Err(Cannot(format!("hold more than {CONNECTIONS}: each takes a connection")).into());
        }
        self.lock(name, ttl).await
    }
}

fn main() {
    serve::<Dlock>(&Handshake {
        name: "dlock-mysql",
        library: library("distributed-lock-mysql"),
        runtime: "tokio, one thread",
        backends: &["mysql-session"],
        notes: &[
            "a connection for each lock that is held or waited for: a pool of 32, where the default is 10",
            "acquires with a limit of an hour: without a limit it sends one that MariaDB refuses",
            "no TTL: a lock ends with its connection",
        ],
    });
}
