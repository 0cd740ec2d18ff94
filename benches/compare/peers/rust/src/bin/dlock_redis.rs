//! distributed-lock-redis: one Redis, or Redlock, on fred.
#![forbid(unsafe_code)]

use std::time::Duration;

use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use fred::prelude::{ClientLike, RedisClient, RedisConfig};
use lockwright_bench_peers::library;
use lockwright_bench_protocol::{Cannot, Library, Handshake, Result, TTL, serve};

struct Dlock(RedisLockProvider);

impl Library for Dlock {
    type Hold = RedisLockHandle;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let mut builder = RedisLockProvider::builder()
            .expiry(TTL)
            .extension_cadence(TTL / 3)
            .min_validity(TTL * 9 / 10);
        for url in urls {
            let client = RedisClient::new(RedisConfig::from_url(url)?, None, None, None);
            client.connect();
            client.wait_for_connect().await?;
            builder = builder.client(client);
        }
        Ok(Self(builder.build().await?))
    }

    async fn lock(&self, name: &str, _ttl: Duration) -> Result<RedisLockHandle> {
        match self.0.create_lock(name).acquire(None).await {
            Ok(handle) => Ok(handle),
            Err(LockError::Timeout(_)) => {
                Err(Cannot("wait: acquire without a limit says at once that it timed out".into()).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn unlock(&self, handle: RedisLockHandle) -> Result<()> {
        Ok(handle.release().await?)
    }
}

fn main() {
    serve::<Dlock>(&Handshake {
        name: "dlock-redis",
        library: library("distributed-lock-redis"),
        runtime: "tokio, one thread",
        backends: &["redis", "redlock-5"],
        notes: &[
            "the watchdog can't be turned off, so it is on in pairs too",
            "its release doesn't report whether the lock was still held",
        ],
    });
}
