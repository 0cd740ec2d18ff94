//! What a backend's author writes.

use std::fmt;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Result, async_trait};

use crate::context::{Believer, CoreClient};

/// How the suite reaches a backend.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// The way to one store, as the clients of one case connect to it. Called once for each case,
    /// in the case's runtime.
    ///
    /// Cases run beside each other on one server: each has names of its own. A backend that keeps
    /// everything in memory makes a new store here, on the `clock` it is given.
    async fn open(&self, clock: &Clock) -> Result<Connect>;

    /// What the cases run on.
    fn runtime(&self) -> Runtime {
        Runtime::Real
    }

    /// The TTL by which the cases reckon: long enough that the noise of the machine doesn't
    /// matter. Some cases take a few of them.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// A command that runs [`child::main`](crate::child::main) on the same store in another
    /// process, if other processes reach it: see [`child::this_program`](crate::child::this_program).
    fn child(&self) -> Option<Command> {
        None
    }

    /// The client whose belief is checked: the real one. The suite's own tests put in broken ones.
    fn believer(
        &self,
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Box<dyn Believer>> {
        Ok(Box::new(CoreClient::new(backend, clock, ttl)?))
    }
}

/// What the cases run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Threads and the boot clock: waiting takes time.
    Real,
    /// One thread, and tokio's paused clock, which goes on when there is nothing else to do. For
    /// backends without input and output of their own. Needs the feature `paused`.
    Paused,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn DistributedLock>>> + Send>>;

/// Makes one more backend on the same store, as another client would have it.
#[derive(Clone)]
pub struct Connect(Arc<dyn Fn() -> Connecting + Send + Sync>);

/// A way to a store: `connector(move || connect(url.clone()))`.
pub fn connector<F, B>(connect: impl Fn() -> F + Send + Sync + 'static) -> Connect
where
    F: Future<Output = Result<B>> + Send + 'static,
    B: DistributedLock,
{
    Connect(Arc::new(move || {
        let connecting = connect();
        Box::pin(async move { Ok(Arc::new(connecting.await?) as Arc<dyn DistributedLock>) })
    }))
}

impl Connect {
    /// One more.
    pub async fn connect(&self) -> Result<Arc<dyn DistributedLock>> {
        (self.0)().await
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}
