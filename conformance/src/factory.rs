//! The interface that a backend's author implements.

use std::fmt;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Error, ErrorKind, Result, async_trait};

use crate::client::{Believer, CoreClient};
use crate::protected::Protect;

/// The suite's access to a backend.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// Opens one store for the clients of one case, in the case's runtime.
    ///
    /// Cases run in parallel on one server with different names. An in-memory backend creates a new store here, on
    /// `clock`.
    async fn open(&self, clock: &Clock) -> Result<Connect>;

    /// Returns a label for tables, if the backend's name isn't enough.
    fn label(&self) -> Option<String> {
        None
    }

    /// Returns the kind of runtime for the cases.
    fn runtime(&self) -> Runtime {
        Runtime::Real
    }

    /// Returns the default number of parallel cases. They mostly wait. Choose fewer if each request needs several
    /// servers on this machine.
    fn at_a_time(&self) -> usize {
        16
    }

    /// Returns the TTL of the cases, long compared with the machine's noise. Some cases take several TTLs.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns a command that runs [`child::main`](crate::child::main) on the same store, such as
    /// [`child::this_program`](crate::child::this_program). `None` if other processes can't reach the store.
    fn child(&self) -> Option<Command> {
        None
    }

    /// Returns the access to a protected store that rejects late writes, if there is one.
    fn protected(&self) -> Option<Protect> {
        None
    }

    /// Returns the supported harms to a [`fragile`](Factory::fragile) server.
    fn harms(&self) -> &[Harm] {
        &[]
    }

    /// Starts a server for one case that may do the [`harms`](Factory::harms) to it.
    ///
    /// # Errors
    /// By default: the factory has no such server.
    async fn fragile(&self) -> Result<Fragile> {
        Err(Error::new(ErrorKind::Unsupported, "this factory has no server that may be harmed"))
    }

    /// Returns the client under test, by default the real one.
    fn believer(
        &self,
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Box<dyn Believer>> {
        Ok(Box::new(CoreClient::new(backend, clock, ttl)?))
    }
}

/// The runtime of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Threads and the boot clock.
    Real,
    /// One thread and tokio's paused clock, for backends without I/O. Needs the feature `paused`.
    Paused,
}

/// A harm to a server or to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// The server stops for more than a TTL, and then processes the requests sent in between.
    Freeze,
    /// The server is restarted with its data.
    Restart,
    /// The server is restarted without its data.
    Forget,
    /// A client is cut off from the server for more than a TTL.
    Cut,
}

/// A step of a harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The harm begins. A restart is complete when this step returns.
    Begin(Harm),
    /// The harm ends.
    End(Harm),
}

/// A server to which a case may do harm.
pub struct Fragile {
    /// The connector to it.
    pub connect: Connect,
    /// The connector that [`Harm::Cut`] affects, or `connect` if nothing can be cut.
    pub cut_off: Connect,
    /// Does the harm. May block; called outside of async code.
    pub harm: Arc<dyn Fn(Step) -> Result<()> + Send + Sync>,
}

impl Fragile {
    pub(crate) async fn step(&self, step: Step) -> Result<()> {
        let harm = Arc::clone(&self.harm);
        tokio::task::spawn_blocking(move || harm(step))
            .await
            .map_err(|error| Error::unavailable(error.to_string()))?
    }
}

impl fmt::Debug for Fragile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fragile")
    }
}

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn DistributedLock>>> + Send>>;

/// A connector that creates a new backend on the same store for each client.
#[derive(Clone)]
pub struct Connect(Arc<dyn Fn() -> Connecting + Send + Sync>);

/// Returns a connector: `connector(move || connect(url.clone()))`.
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
    /// Connects a new backend.
    pub async fn connect(&self) -> Result<Arc<dyn DistributedLock>> {
        (self.0)().await
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// A live server, for `lockwright conformance --url …`.
pub struct Live {
    connect: Connect,
    ttl: Duration,
    child: Option<Box<dyn Fn() -> Command + Send + Sync>>,
}

impl Live {
    /// Returns the server that `connect` reaches. Each call must create a new backend.
    pub fn new(connect: Connect) -> Self {
        Self { connect, ttl: Duration::from_secs(1), child: None }
    }

    /// Sets the TTL of the cases, 1 s by default. A distant server may need more.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the command of a process that first calls [`child::main`](crate::child::main) with a `connect` to the
    /// same store. It may be this program with a hidden subcommand. Not for stores that other processes can't
    /// reach.
    pub fn child(mut self, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        self.child = Some(Box::new(command));
        self
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[async_trait]
impl Factory for Live {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(self.connect.clone())
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn child(&self) -> Option<Command> {
        self.child.as_ref().map(|child| child())
    }
}
