//! The interface for a backend's author.

use std::fmt;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Error, ErrorKind, Locks, Result, async_trait};

use crate::client::Believer;
use crate::protected::Protect;

/// The suite's access to a backend.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// Opens one store for the clients of one case, in the case's runtime.
    ///
    /// Cases run in parallel on one server with different names. An in-memory backend creates a store on `clock`.
    async fn open(&self, clock: &Clock) -> Result<Connect>;

    /// Returns a label, more specific than the backend's name.
    fn label(&self) -> Option<String> {
        None
    }

    /// Returns the runtime of the cases.
    fn runtime(&self) -> Runtime {
        Runtime::Real
    }

    /// Returns the default number of parallel cases. Choose fewer if each request needs several local servers.
    fn at_a_time(&self) -> usize {
        16
    }

    /// Returns the cases' TTL, long compared with the machine's noise.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns a command that runs [`child::main`](crate::child::main) on the same store, if processes can share it.
    fn child(&self) -> Option<Command> {
        None
    }

    /// Returns a protected store, if there is one.
    fn protected(&self) -> Option<Protect> {
        None
    }

    /// Returns the supported harms.
    fn harms(&self) -> &[Harm] {
        &[]
    }

    /// Starts a server for one case, which may do the [`harms`](Factory::harms) to it.
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
        Ok(Box::new(Locks::builder(backend).clock(clock.clone()).ttl(ttl).build()?))
    }
}

/// The runtime of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Threads and the boot clock.
    Real,
    /// One thread and tokio's paused clock, without I/O (feature `paused`).
    Paused,
}

/// A harm to a server or to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// The server stops for more than a TTL, then processes pending requests.
    Freeze,
    /// The server restarts with its data.
    Restart,
    /// The server restarts without its data.
    Forget,
    /// A client is cut off, for more than a TTL.
    Cut,
}

/// A step of a harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The harm begins; a restart is complete on return.
    Begin(Harm),
    /// The harm ends.
    End(Harm),
}

/// A server that a case may harm.
pub struct Fragile {
    /// The server's connector.
    pub connect: Connect,
    /// The connector that [`Harm::Cut`] affects, or else `connect`.
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

/// A connector that creates backends on one store.
#[derive(Clone)]
pub struct Connect(Arc<dyn Fn() -> Connecting + Send + Sync>);

/// Creates a connector: `connector(move || connect(url.clone()))`.
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

/// A live server.
pub struct Live {
    connect: Connect,
    ttl: Duration,
    child: Option<Box<dyn Fn() -> Command + Send + Sync>>,
}

impl Live {
    /// Returns the server of `connect`, which must create a backend for each call.
    pub fn new(connect: Connect) -> Self {
        Self { connect, ttl: Duration::from_secs(1), child: None }
    }

    /// Sets the TTL of the cases, 1 s by default.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets a command that first calls [`child::main`](crate::child::main) on the same store.
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
