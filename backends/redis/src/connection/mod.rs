//! A client's connection to a server, for requests and wake-ups.
//!
//! The client replaces a connection when it breaks, a reply is late, the probe of a dropped request
//! times out (`probe.rs`), or the server has become a replica. A request without a reply is never
//! resent: the server may have executed it.

mod open;
mod probe;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{Error, ErrorKind, Result};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use self::open::dial;
use self::probe::Unanswered;

use crate::config::Config;
use crate::errors::{self, Effect, error};
use crate::failure;
use crate::fast_path::CounterBound;
use crate::scripts::{self, Body, Call};
use crate::sentinel::master::Sentinels;
use crate::sentinel::switch_master;
use crate::topology::Whereabouts;
use crate::wakeup::Wakeups;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) runtime: Handle,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Result<Arc<Self>> {
        let runtime = Handle::try_current().map_err(|_| {
            error(ErrorKind::InvalidConfig, "connecting needs a tokio runtime; there is none here")
        })?;
        let wakeups = Arc::new(Wakeups::new(&config));
        Ok(Arc::new(Self { config, wakeups, runtime }))
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    to: Whereabouts,
    /// The connection for requests that wait for replicas.
    waiting: Option<Arc<Link>>,
    is_waiting: bool,
    current: Mutex<Option<Arc<Live>>>,
    /// Locked by the task that connects. Has the last failure.
    connecting: Arc<tokio::sync::Mutex<Error>>,
    failures: AtomicU64,
    opened: AtomicU64,
    broken: UnboundedSender<()>,
    election: AtomicU64,
    listening: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    counter_bound: CounterBound,
    alive: Arc<AtomicBool>,
    probed: Arc<AtomicBool>,
    server: String,
    pub(crate) user: Option<String>,
    pub(crate) number: u64,
}

impl Link {
    pub(crate) async fn connect(shared: Arc<Shared>, to: Whereabouts) -> Result<Arc<Self>> {
        let link = Self::new(shared, to, false);
        link.live().await?;
        if let Some(waiting) = &link.waiting {
            waiting.live().await?;
        }
        if matches!(link.to, Whereabouts::Master) {
            *lock(&link.listening) = switch_master::listen(&link);
        }
        Ok(link)
    }

    pub(crate) fn connect_later(shared: Arc<Shared>, to: Whereabouts) -> Arc<Self> {
        let link = Self::new(shared, to, false);
        let _ = link.broken.send(());
        link
    }

    fn new(shared: Arc<Shared>, to: Whereabouts, is_waiting: bool) -> Arc<Self> {
        let has_waiting = !is_waiting && shared.config.replicas.is_some();
        let waiting = has_waiting.then(|| Self::new(Arc::clone(&shared), to.clone(), true));
        let (broken, breaks) = unbounded_channel();
        let link = Arc::new(Self {
            shared,
            to,
            waiting,
            is_waiting,
            current: Mutex::new(None),
            connecting: Arc::new(tokio::sync::Mutex::new(Error::unavailable(""))),
            failures: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            broken,
            election: AtomicU64::new(0),
            listening: Mutex::default(),
        });
        link.shared.runtime.spawn(keep_connected(Arc::downgrade(&link), breaks));
        link
    }

    pub(crate) fn sentinels(&self) -> Option<Sentinels<'_>> {
        Sentinels::of(&self.shared.config, &self.election)
    }

    pub(crate) async fn run(self: &Arc<Self>, call: Call<'_>) -> Result<Value> {
        let live = self.live().await?;
        self.run_on(&live, call).await
    }

    pub(crate) async fn run_on(
        self: &Arc<Self>,
        live: &Arc<Live>,
        call: Call<'_>,
    ) -> Result<Value> {
        let answer = self.try_run_on(live, call).await?;
        answer.map_err(|cause| errors::translate(cause, call.effect))
    }

    /// The outer error means no reply. The inner error is the server's, and may be a redirection.
    pub(crate) async fn try_run_on(
        self: &Arc<Self>,
        live: &Arc<Live>,
        call: Call<'_>,
    ) -> Result<Result<Value, RedisError>> {
        if let (Some(waiting), Some(replicas)) = (&self.waiting, self.shared.config.replicas)
            && call.is_of(&[&scripts::ACQUIRE, &scripts::SWAP, &scripts::RENEW])
        {
            let other = waiting.live().await?;
            // After a failover, the two connections may lead to different masters, on which a
            // release couldn't end the other's grant.
            if other.server != live.server {
                self.mark_broken(&live.alive);
                waiting.mark_broken(&other.alive);
                let problem = "the master is being replaced; try again";
                return Err(error(ErrorKind::Unavailable, problem));
            }
            let answer = Box::pin(waiting.run_and_wait(&other, replicas, call)).await;
            if answer.is_err() && !other.alive.load(Ordering::Acquire) {
                // If `other` is broken, `live` may be silent.
                self.probe(live, Duration::ZERO);
            }
            return answer;
        }
        self.ask_once(live, call).await
    }

    pub(crate) async fn ask_once(
        self: &Arc<Self>,
        live: &Arc<Live>,
        call: Call<'_>,
    ) -> Result<Result<Value, RedisError>> {
        let (script, keys, arguments) = match call.what {
            Body::Script { script, keys, arguments } => (script, keys, arguments),
            Body::Command(cmd) => return self.ask(live, call.before, cmd, call.effect).await,
        };
        let command = |is_known| {
            let mut cmd = script.command(is_known, keys, arguments);
            if call.is_of(&[&scripts::FAST_ACQUIRE]) {
                cmd.arg(live.counter_bound.millis());
            }
            cmd
        };
        match self.ask(live, call.before, &command(true), call.effect).await? {
            // The server lacked the script, so the request had no effect and can be repeated.
            Err(cause) if errors::lacks_script(&cause) => {
                Box::pin(self.ask(live, call.before, &command(false), call.effect)).await
            }
            answer => Ok(answer),
        }
    }

    pub(crate) async fn read(self: &Arc<Self>, command: &Cmd) -> Result<Value> {
        self.run(Call::command("", command, Effect::Reads)).await
    }

    pub(crate) async fn read_each(
        self: &Arc<Self>,
        commands: &Pipeline,
        count: usize,
    ) -> Result<Vec<Value>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let live = self.live().await?;
        let mut connection = live.connection.clone();
        let asking = connection.req_packed_commands(commands, 0, count);
        let limit = self.shared.config.response_timeout;
        let answer = self.within(&live, limit, Effect::Reads, asking).await?;
        answer.map_err(|cause| errors::translate(cause, Effect::Reads))
    }

    /// Sends a command directly after `before`. The outer error means no reply.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        live: &Arc<Live>,
        before: Option<&Cmd>,
        command: &Cmd,
        effect: Effect,
    ) -> Result<Result<Value, RedisError>> {
        let mut connection = live.connection.clone();
        let asking = async {
            match before {
                None => command.query_async(&mut connection).await,
                Some(before) => Box::pin(both(&mut connection, before, command)).await,
            }
        };
        self.within(live, self.shared.config.response_timeout, effect, asking).await
    }

    pub(crate) async fn within<T>(
        self: &Arc<Self>,
        live: &Arc<Live>,
        limit: Duration,
        effect: Effect,
        asking: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<Result<T, RedisError>> {
        let limit = effect.limit(limit);
        if limit.is_zero() {
            let problem = "no time was left to ask the server; nothing was sent";
            return Err(error(ErrorKind::Unavailable, problem));
        }
        let unanswered = Unanswered::new(self, live, limit);
        let Ok(answer) = timeout(limit, asking).await else {
            unanswered.timed_out();
            return Err(effect.timed_out(limit));
        };
        unanswered.answered();
        if let Err(cause) = &answer
            && (cause.is_unrecoverable_error() || errors::needs_reconnect(cause))
        {
            self.mark_broken(&live.alive);
        }
        Ok(answer)
    }

    pub(crate) fn usable(&self) -> Option<Arc<Live>> {
        lock(&self.current).as_ref().filter(|live| live.alive.load(Ordering::Acquire)).cloned()
    }

    pub(crate) fn leave_unless_at(&self, server: &str) {
        if let Some(live) = self.usable().filter(|live| live.server != server) {
            tracing::debug!(from = %live.server, to = server, "redis: another master");
            self.mark_broken(&live.alive);
        }
        if let Some(waiting) = &self.waiting {
            waiting.leave_unless_at(server);
        }
    }

    fn mark_broken(&self, alive: &AtomicBool) {
        // Later callers don't signal, because the link may have a new connection by then.
        if alive.swap(false, Ordering::AcqRel) {
            let _ = self.broken.send(());
        }
    }

    /// Connects if necessary. An error means that nothing was sent.
    pub(crate) async fn live(self: &Arc<Self>) -> Result<Arc<Live>> {
        if let Some(live) = self.usable() {
            return Ok(live);
        }
        let failures = self.failures.load(Ordering::Acquire);
        let mut last_failure = Arc::clone(&self.connecting).lock_owned().await;
        if let Some(live) = self.usable() {
            return Ok(live);
        }
        let opened = if self.failures.load(Ordering::Acquire) == failures {
            // The task owns the lock on `connecting`, so all callers share its attempt, even if
            // this one is cancelled.
            let link = Arc::clone(self);
            let attempt = self.shared.runtime.spawn(async move {
                let opened = link.open().await;
                if let Err(failure) = &opened {
                    *last_failure = failure::copied(failure);
                    link.failures.fetch_add(1, Ordering::AcqRel);
                }
                opened
            });
            attempt.await.unwrap_or_else(|_| {
                Err(Error::unavailable("the runtime in which the client connected has ended"))
            })
        } else {
            Err(failure::copied(&last_failure))
        };
        opened.map_err(|failure| failure.with_backend(self.shared.config.topology.backend()))
    }
}

pub(crate) fn command(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words);
    command
}

/// Sends two commands with none between them. If the first is refused, the second is harmless: a
/// read, or redirected.
async fn both(
    connection: &mut MultiplexedConnection,
    first: &Cmd,
    second: &Cmd,
) -> Result<Value, RedisError> {
    let mut pipeline = redis::pipe();
    pipeline.add_command(first.clone()).add_command(second.clone());
    let answers = connection.req_packed_commands(&pipeline, 0, 2).await?;
    let mut answer = Value::Nil;
    for one in answers {
        answer = one.extract_error()?;
    }
    Ok(answer)
}

async fn keep_connected(link: Weak<Link>, mut breaks: UnboundedReceiver<()>) {
    const FIRST_PAUSE: Duration = Duration::from_millis(20);
    const LONGEST_PAUSE: Duration = Duration::from_secs(1);

    while breaks.recv().await.is_some() {
        let mut pause = FIRST_PAUSE;
        loop {
            let Some(link) = link.upgrade() else { return };
            match link.live().await {
                Ok(_) => break,
                Err(failure) => tracing::debug!(%failure, ?pause, "redis: no connection"),
            }
            drop(link);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
