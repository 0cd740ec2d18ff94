//! The interface that a backend's author implements.

use std::fmt;
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Clock, DistributedLock, Error, ErrorKind, Locks, Result, async_trait};

use crate::client::TestedClient;
use crate::protected::Protect;

/// The suite's access to a backend.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// Opens the store of one case, in the case's runtime.
    ///
    /// Parallel cases use different names, so they can share a store. `clock` is for in-memory
    /// stores.
    async fn open(&self, clock: &Clock) -> Result<Connect>;

    /// Returns the label in reports, by default the backend's name.
    fn label(&self) -> Option<String> {
        None
    }

    /// Returns the cases' kind of runtime.
    fn runtime(&self) -> Runtime {
        Runtime::Real
    }

    /// Returns the default number of parallel cases.
    fn at_a_time(&self) -> usize {
        16
    }

    /// Returns the holds' TTL. It must be long compared with scheduling delays.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns a command that runs [`child::main`](crate::child::main) on the same store, or `None`
    /// if processes can't share the store.
    fn child(&self) -> Option<Command> {
        None
    }

    /// Returns a store that rejects late writes, if the backend has one.
    fn protected(&self) -> Option<Protect> {
        None
    }

    /// Returns the harms that the [`fragile`](Factory::fragile) server supports.
    fn harms(&self) -> &[Harm] {
        &[]
    }

    /// Starts a server for one case. The case may do the [`harms`](Factory::harms) to it.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) by default.
    async fn fragile(&self) -> Result<Fragile> {
        Err(no_fragile())
    }

    /// Returns the client that the cases test, by default [`Locks`].
    fn tested_client(
        &self,
        backend: Arc<dyn DistributedLock>,
        clock: &Clock,
        ttl: Duration,
    ) -> Result<Box<dyn TestedClient>> {
        Ok(Box::new(Locks::builder(backend).clock(clock.clone()).ttl(ttl).build()?))
    }
}

fn no_fragile() -> Error {
    Error::new(ErrorKind::Unsupported, "this factory has no server that may be harmed")
}

/// The cases' kind of runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// Several threads and the boot clock.
    Real,
    /// One thread and tokio's paused clock, for backends without I/O (feature `paused`).
    Paused,
}

/// A harm to a server or a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// The server is suspended for more than a TTL, and then processes pending requests.
    Freeze,
    /// The server restarts with its data.
    Restart,
    /// The server restarts without its data.
    Forget,
    /// A client is disconnected for more than a TTL.
    Cut,
}

/// The beginning or end of a harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The harm begins. A restart is complete when [`Fragile::harm`] returns.
    Begin(Harm),
    /// The harm ends.
    End(Harm),
}

/// A server that a case may harm.
pub struct Fragile {
    /// Connects to the server.
    pub connect: Connect,
    /// Connects through a link that [`Harm::Cut`] cuts, if that harm is supported.
    pub cut_off: Connect,
    /// Begins or ends a harm. May block.
    pub harm: Arc<dyn Fn(Step) -> Result<()> + Send + Sync>,
}

impl Fragile {
    /// Creates a `Fragile` from its parts.
    pub fn new(
        connect: Connect,
        cut_off: Connect,
        harm: impl FnMut(Step) -> Result<(), Box<dyn std::error::Error>> + Send + 'static,
    ) -> Self {
        let harm = Mutex::new(harm);
        let harm = move |step| {
            let mut harm = lock(&harm);
            harm(step).map_err(problem)
        };
        Self { connect, cut_off, harm: Arc::new(harm) }
    }

    pub(crate) async fn step(&self, step: Step) -> Result<()> {
        let harm = Arc::clone(&self.harm);
        tokio::task::spawn_blocking(move || harm(step)).await.map_err(problem)?
    }
}

impl fmt::Debug for Fragile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fragile")
    }
}

/// Converts a test server's error to [`ErrorKind::Unavailable`].
pub fn problem(error: impl fmt::Display) -> Error {
    Error::unavailable(error.to_string())
}

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn DistributedLock>>> + Send>>;

/// A function that connects new backends to one store.
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

/// Creates a connector that passes `url` to `connect`.
pub fn connector_to<F, B>(url: impl Into<String>, connect: fn(String) -> F) -> Connect
where
    F: Future<Output = Result<B>> + Send + 'static,
    B: DistributedLock,
{
    let url = url.into();
    connector(move || connect(url.clone()))
}

type Starting = Pin<Box<dyn Future<Output = Result<Fragile>> + Send>>;

/// A [`Factory`] for a running server.
pub struct LiveServer {
    connect: Connect,
    url: String,
    label: Option<String>,
    at_a_time: usize,
    ttl: Duration,
    protected: Option<Protect>,
    harms: &'static [Harm],
    fragile: Option<Box<dyn Fn() -> Starting + Send + Sync>>,
}

impl LiveServer {
    /// Describes the server at `url`, with [`Factory`]'s defaults.
    pub fn at<F, B>(url: impl Into<String>, connect: fn(String) -> F) -> Self
    where
        F: Future<Output = Result<B>> + Send + 'static,
        B: DistributedLock,
    {
        let url = url.into();
        Self {
            connect: connector_to(url.clone(), connect),
            url,
            label: None,
            at_a_time: 16,
            ttl: Duration::from_secs(1),
            protected: None,
            harms: &[],
            fragile: None,
        }
    }

    /// Sets [`Factory::label`].
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Sets [`Factory::at_a_time`].
    pub fn at_a_time(self, at_a_time: usize) -> Self {
        Self { at_a_time, ..self }
    }

    /// Sets [`Factory::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Sets [`Factory::protected`].
    pub fn protected(self, protected: Protect) -> Self {
        Self { protected: Some(protected), ..self }
    }

    /// Sets [`Factory::harms`] and [`Factory::fragile`].
    pub fn fragile<F: Future<Output = Result<Fragile>> + Send + 'static>(
        self,
        harms: &'static [Harm],
        start: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self { harms, fragile: Some(Box::new(move || Box::pin(start()))), ..self }
    }
}

impl fmt::Debug for LiveServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveServer").field("label", &self.label).finish_non_exhaustive()
    }
}

#[async_trait]
impl Factory for LiveServer {
    async fn open(&self, _clock: &Clock) -> Result<Connect> {
        Ok(self.connect.clone())
    }

    fn label(&self) -> Option<String> {
        self.label.clone()
    }

    fn at_a_time(&self) -> usize {
        self.at_a_time
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn child(&self) -> Option<Command> {
        crate::child::this_program(&self.url)
    }

    fn protected(&self) -> Option<Protect> {
        self.protected.clone()
    }

    fn harms(&self) -> &[Harm] {
        self.harms
    }

    async fn fragile(&self) -> Result<Fragile> {
        match &self.fragile {
            Some(start) => start().await,
            None => Err(no_fragile()),
        }
    }
}
