//! The description of a backend for the suite.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Clock, DistributedLock, Error, ErrorKind, Locks, Result};

use crate::client::TestedClient;
use crate::protected::Protect;

type Opening = Box<dyn Fn(&Clock) -> Connect + Send + Sync>;
type Starting = Pin<Box<dyn Future<Output = Result<Fragile>> + Send>>;
type Testing = dyn Fn(Arc<dyn DistributedLock>, &Clock, Duration) -> Result<Box<dyn TestedClient>>
    + Send
    + Sync;

/// A description of a backend for the suite.
pub struct Factory {
    pub(crate) open: Opening,
    pub(crate) label: Option<String>,
    pub(crate) runtime: Runtime,
    #[cfg_attr(not(feature = "harness"), expect(dead_code, reason = "only the harness reads it"))]
    pub(crate) at_a_time: usize,
    pub(crate) ttl: Duration,
    pub(crate) address: Option<String>,
    pub(crate) protected: Option<Protect>,
    pub(crate) harms: &'static [Harm],
    start: Option<Box<dyn Fn() -> Starting + Send + Sync>>,
    pub(crate) tested_client: Box<Testing>,
}

impl Factory {
    /// Creates a factory that opens each case's store (server, file or memory) in the case's
    /// runtime. Parallel cases use different names, so they can share a store. The [`Clock`] is for
    /// in-memory stores.
    pub fn new(open: impl Fn(&Clock) -> Connect + Send + Sync + 'static) -> Self {
        Self {
            open: Box::new(open),
            label: None,
            runtime: Runtime::Real,
            at_a_time: 16,
            ttl: Duration::from_secs(1),
            address: None,
            protected: None,
            harms: &[],
            start: None,
            tested_client: Box::new(|backend, clock, ttl| {
                Ok(Box::new(Locks::builder(backend).clock(clock.clone()).ttl(ttl).build()?))
            }),
        }
    }

    /// Creates a factory for the running server at `url`, to which child processes connect in
    /// [`child::main`](crate::child::main).
    pub fn at<F, B>(url: impl Into<String>, connect: fn(String) -> F) -> Self
    where
        F: Future<Output = Result<B>> + Send + 'static,
        B: DistributedLock,
    {
        let url = url.into();
        let connect = connector_to(url.clone(), connect);
        Self { address: Some(url), ..Self::new(move |_| connect.clone()) }
    }

    /// Sets the label in reports, by default the backend's name.
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Sets the cases' kind of runtime, by default [`Runtime::Real`].
    pub fn runtime(self, runtime: Runtime) -> Self {
        Self { runtime, ..self }
    }

    /// Sets the number of parallel cases in [`Runtime::Real`] without `--test-threads`; default 16.
    pub fn at_a_time(self, at_a_time: usize) -> Self {
        Self { at_a_time, ..self }
    }

    /// Sets the holds' TTL, by default 1 s; it must be long compared with scheduling delays.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Sets a protected resource that rejects late writes.
    pub fn protected(self, protected: Protect) -> Self {
        Self { protected: Some(protected), ..self }
    }

    /// Sets the function that starts a server for one case, and the supported `harms`.
    pub fn fragile<F: Future<Output = Result<Fragile>> + Send + 'static>(
        self,
        harms: &'static [Harm],
        start: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self { harms, start: Some(Box::new(move || Box::pin(start()))), ..self }
    }

    /// Sets the client that the cases test, by default [`Locks`].
    pub fn tested_client<F>(self, client: F) -> Self
    where
        F: Fn(Arc<dyn DistributedLock>, &Clock, Duration) -> Result<Box<dyn TestedClient>>
            + Send
            + Sync
            + 'static,
    {
        Self { tested_client: Box::new(client), ..self }
    }

    pub(crate) async fn start(&self) -> Result<Fragile> {
        match &self.start {
            Some(start) => start().await,
            None => Err(Error::new(
                ErrorKind::Unsupported,
                "this factory has no server that may be harmed",
            )),
        }
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("label", &self.label).finish_non_exhaustive()
    }
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
    /// If [`Harm::Cut`] is supported, connects through a link that it cuts.
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

/// Creates a [`Connect`]: `connector(move || connect(url.clone()))`.
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

/// Creates a [`Connect`] that passes `url` to `connect`.
pub fn connector_to<F, B>(url: impl Into<String>, connect: fn(String) -> F) -> Connect
where
    F: Future<Output = Result<B>> + Send + 'static,
    B: DistributedLock,
{
    let url = url.into();
    connector(move || connect(url.clone()))
}
