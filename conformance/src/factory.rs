//! What a backend's author writes.

use std::fmt;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{Clock, DistributedLock, Error, ErrorKind, Result, async_trait};

use crate::context::{Believer, CoreClient};
use crate::protected::Protect;

/// How the suite reaches a backend.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// The way to one store, as the clients of one case connect to it. Called once for each case,
    /// in the case's runtime.
    ///
    /// Cases run beside each other on one server: each has names of its own. A backend that keeps
    /// everything in memory makes a new store here, on the `clock` it is given.
    async fn open(&self, clock: &Clock) -> Result<Connect>;

    /// What is tested, for tables, where the backend's name doesn't say it: another way to the same
    /// server, say.
    fn label(&self) -> Option<String> {
        None
    }

    /// What the cases run on.
    fn runtime(&self) -> Runtime {
        Runtime::Real
    }

    /// How many cases run beside each other, unless whoever starts them says otherwise. They mostly wait: for a
    /// TTL to end, and for servers. Fewer are better where each request is work of several servers that share
    /// this machine: on a slow one they would answer too late.
    fn at_a_time(&self) -> usize {
        16
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

    /// The way to something that the locks protect, where this backend's helper refuses late writes by
    /// their fence: beside the locks or on another server, as it is used. Without, nothing is promised.
    fn protected(&self) -> Option<Protect> {
        None
    }

    /// What can be done to a [`fragile`](Factory::fragile) server.
    fn harms(&self) -> &[Harm] {
        &[]
    }

    /// A server of its own for one case, to which the case may do what [`harms`](Factory::harms)
    /// lists. Called only if that isn't empty.
    ///
    /// # Errors
    /// By default: there is none.
    async fn fragile(&self) -> Result<Fragile> {
        Err(Error::new(ErrorKind::Unsupported, "this factory has no server that may be harmed"))
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

/// What is done to a server, or to the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// It is stopped in its tracks, for more than a TTL, and goes on. Requests that it was sent
    /// meanwhile are carried out late.
    Freeze,
    /// It is restarted with its data.
    Restart,
    /// It is restarted without its data.
    Forget,
    /// A client is cut off from it, for more than a TTL.
    Cut,
}

/// A step of a harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// It begins. A restart is over when it is done.
    Begin(Harm),
    /// It is over.
    End(Harm),
}

/// A server that may be harmed.
pub struct Fragile {
    /// The way to it.
    pub connect: Connect,
    /// The way that [`Harm::Cut`] cuts. The same as `connect` where nothing can be cut.
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

/// A live server, for `lockwright conformance --url …`.
pub struct Live {
    connect: Connect,
    ttl: Duration,
    child: Option<Box<dyn Fn() -> Command + Send + Sync>>,
}

impl Live {
    /// The server that `connect` reaches. Each call must make a backend of its own, on one store.
    pub fn new(connect: Connect) -> Self {
        Self { connect, ttl: Duration::from_secs(1), child: None }
    }

    /// The TTL by which the cases reckon; 1 s if not set. A far server may need more.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How to start a process that calls [`child::main`](crate::child::main) first, with a
    /// `connect` to the same store: the program itself with a hidden subcommand, say. Not for a
    /// store that other processes don't reach.
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
