//! distributed-lock-postgres: advisory locks of sessions, on sqlx.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_postgres::PostgresLockProvider;
use distributed_lock_postgres::handle::PostgresLockHandle;
use lockwright_bench_peers::library;
use lockwright_bench_protocol::{Cannot, Library, Handshake, Result, serve};
use sqlx::postgres::PgPoolOptions;

const CONNECTIONS: u32 = 32;

struct Dlock {
    provider: PostgresLockProvider,
    taken: Cell<u32>,
}

impl Library for Dlock {
    type Hold = PostgresLockHandle;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let [url] = urls else { return Err("it needs one URL".into()) };
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        let provider = PostgresLockProvider::builder().pool(pool).build().await?;
        Ok(Self { provider, taken: Cell::new(0) })
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<PostgresLockHandle> {
        self.taken.set(self.taken.get() + 1);
        Ok(self.provider.create_lock(name).acquire(None).await?)
    }

    async fn unlock(&self, handle: PostgresLockHandle) -> Result<()> {
        handle.release().await?;
        self.taken.set(self.taken.get() - 1);
        Ok(())
    }

    async fn keep(&self, name: &str, ttl: Duration) -> Result<PostgresLockHandle> {
        if self.taken.get() >= CONNECTIONS {
            return Err(Cannot(format!("hold more than {CONNECTIONS}: each takes a connection")).into());
        }
        self.lock(name, ttl).await
    }
}

fn main() {
    serve::<Dlock>(&Handshake {
        name: "dlock-postgres",
        library: library("distributed-lock-postgres"),
        runtime: "tokio, one thread",
        backends: &["postgres-session"],
        notes: &[
            "a connection for each lock that is held or waited for: a pool of 32, where the default is 10",
            "no TTL: a lock ends with its connection",
        ],
    });
}
