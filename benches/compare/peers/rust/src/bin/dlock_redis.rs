//! distributed-lock-redis: one Redis, or Redlock, on fred.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use fred::prelude::{ClientLike, RedisClient, RedisConfig};
use lockwright_bench_peers::library;
use lockwright_bench_protocol::{Cannot, Library, Handshake, Result, serve};

struct Dlock {
    clients: Vec<RedisClient>,
    /// The providers by TTL, because all locks of a provider have one TTL.
    providers: RefCell<HashMap<Duration, Rc<RedisLockProvider>>>,
}

impl Dlock {
    async fn provider(&self, ttl: Duration) -> Result<Rc<RedisLockProvider>> {
        if let Some(provider) = self.providers.borrow().get(&ttl) {
            return Ok(provider.clone());
        }
        let mut builder = RedisLockProvider::builder()
            .expiry(ttl)
            .extension_cadence(ttl / 3)
            .min_validity(ttl * 9 / 10);
        for client in &self.clients {
            builder = builder.client(client.clone());
        }
        let provider = Rc::new(builder.build().await?);
        self.providers.borrow_mut().insert(ttl, provider.clone());
        Ok(provider)
    }
}

impl Library for Dlock {
    type Hold = RedisLockHandle;

    async fn open(_backend: &str, urls: &[String]) -> Result<Self> {
        let mut clients = Vec::new();
        for url in urls {
            let client = RedisClient::new(RedisConfig::from_url(url)?, None, None, None);
            client.connect();
            client.wait_for_connect().await?;
            clients.push(client);
        }
        Ok(Self { clients, providers: RefCell::default() })
    }

    async fn lock(&self, name: &str, ttl: Duration) -> Result<RedisLockHandle> {
        let lock = self.provider(ttl).await?.create_lock(name);
        match lock.acquire(None).await {
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
