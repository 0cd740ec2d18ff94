use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use lockwright_core::backend_util::lock;
use lockwright_core::{BootInstant, Clock, Error, ErrorKind, Result};
use tokio::sync::Semaphore;
use zookeeper_client as zk;

use crate::config::Config;
use crate::errors::{Effect, Failure, answer, error, if_present, invalid};
use crate::lifetime_bound::LifetimeBound;
use crate::timeout_check::TimeoutCheck;
use crate::{hold_watch, reachability, tls};

/// The shortest silence timeout. The client library replaces a silence timeout above three fifths
/// of the session's timeout with two fifths.
const SILENCE: Duration = Duration::from_millis(300);

const READ_RETRY_PAUSE: Duration = Duration::from_millis(10);

pub(crate) struct Session {
    /// Its requests are carried out in order: after a response, all earlier requests are done.
    pub(crate) client: zk::Client,
    clock: Clock,
    response_timeout: Duration,
    probe_path: String,
    lifetime: Mutex<LifetimeBound>,
    /// Locked during a proof that the session lives. Concurrent callers share the proof.
    proving: tokio::sync::Mutex<()>,
    proven: Mutex<BootInstant>,
    used: Mutex<BootInstant>,
    pub(crate) timeout_check: TimeoutCheck,
    pub(crate) reconnect_count: AtomicU64,
    /// A permit for each byte of paths that the session may still watch.
    pub(crate) watch_bytes_left: Arc<Semaphore>,
}

impl Session {
    pub(crate) async fn open(
        config: &Config,
        clock: &Clock,
        probe_path: String,
        timeout: Duration,
        tick: Duration,
    ) -> Result<Self> {
        let created = clock.now();
        let client = connect(config, timeout).await?;
        Ok(Self {
            client,
            clock: clock.clone(),
            response_timeout: config.response_timeout,
            probe_path,
            lifetime: Mutex::new(LifetimeBound::new(created, tick)),
            proving: tokio::sync::Mutex::new(()),
            proven: Mutex::new(created),
            used: Mutex::new(clock.now()),
            timeout_check: TimeoutCheck::new(),
            reconnect_count: AtomicU64::new(0),
            watch_bytes_left: Arc::new(Semaphore::new(hold_watch::MOST_BYTES)),
        })
    }

    pub(crate) fn id(&self) -> i64 {
        self.client.session_id().0
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    pub(crate) async fn trusted(&self) -> Result<()> {
        if self.timeout_check.wait(self.response_timeout).await {
            return Ok(());
        }
        let message =
            "the connection broke, and the session's timeout isn't verified yet on the new server";
        Err(error(ErrorKind::Indeterminate, message))
    }

    pub(crate) fn set_tick(&self, tick: Duration) {
        lock(&self.lifetime).tick = tick;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.client.state().is_terminated()
    }

    pub(crate) fn is_fit(&self) -> bool {
        !self.is_over() && !self.timeout_check.is_invalid()
    }

    pub(crate) fn valid_from(&self, start: BootInstant) -> Duration {
        (lock(&self.lifetime).bound + self.timeout()).saturating_since(start)
    }

    pub(crate) async fn answer<T>(
        &self,
        request: impl Future<Output = Result<T, zk::Error>>,
    ) -> Result<T, Failure> {
        answer(self.response_timeout, request).await
    }

    /// Sends a read, and repeats it if the connection breaks.
    pub(crate) async fn read<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        let begun = self.clock.now();
        loop {
            let left =
                self.response_timeout.saturating_sub(self.clock.now().saturating_since(begun));
            match answer(left, ask()).await {
                Err(failure) if failure.is_connection_error() && !self.is_over() => {
                    tokio::time::sleep(READ_RETRY_PAUSE).await;
                }
                Err(Failure::Silence(_)) => return Err(Failure::Silence(self.response_timeout)),
                answer => return answer,
            }
        }
    }

    /// Proves that the session lives. Afterwards, all its earlier requests are done or rejected,
    /// and later reads see their results.
    pub(crate) async fn prove(self: &Arc<Self>) -> Result<()> {
        let wanted = self.clock.now();
        let turn = self.proving.lock().await;
        if *lock(&self.proven) >= wanted {
            return Ok(());
        }
        let sent = Mutex::new(wanted);
        let request = || {
            *lock(&sent) = self.clock.now();
            self.client.delete(&self.probe_path, None)
        };
        committed(self.read(request).await)?;
        let sent = *lock(&sent);
        lock(&self.lifetime).committed(sent, self.clock.now());
        *lock(&self.proven) = sent;
        drop(turn);
        Ok(())
    }

    pub(crate) async fn keep_proving(this: Weak<Self>, pause: Duration) {
        loop {
            let Some(session) = this.upgrade() else { return };
            let (clock, sent) = (session.clock.clone(), session.clock.now());
            // Unlike `prove`, this task doesn't keep the session open during the request.
            let request = session.client.delete(&session.probe_path, None);
            let limit = session.response_timeout;
            drop(session);
            let answer = committed(answer(limit, request).await);
            let Some(session) = this.upgrade() else { return };
            let mut next = sent + pause;
            match answer {
                Ok(()) => {
                    let (mut bound, answered) = (lock(&session.lifetime), clock.now());
                    bound.committed(sent, answered);
                    // A request sent sooner wouldn't confirm this one (lifetime_bound.rs).
                    next = next.max(answered + bound.tick);
                    let mut proven = lock(&session.proven);
                    *proven = (*proven).max(sent);
                }
                Err(_) if session.is_over() => return,
                Err(cause) => {
                    tracing::debug!(%cause, "proving that a session lives failed, retrying")
                }
            }
            drop(session);
            clock.sleep_until(next).await;
        }
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        if_present(self.read(|| self.client.sync("/")).await, Effect::Reads).map(drop)
    }

    pub(crate) async fn has_chroot(&self, config: &Config) -> Result<bool> {
        if config.contents.chroot.is_empty() {
            return Ok(true);
        }
        let found = self.read(|| self.client.check_stat("/")).await;
        found.map(|found| found.is_some()).map_err(|failure| failure.error(Effect::Reads))
    }

    pub(crate) fn touch(&self) {
        *lock(&self.used) = self.clock.now();
    }

    pub(crate) fn idle(&self) -> Duration {
        self.clock.now().saturating_since(*lock(&self.used))
    }
}

fn committed(answer: Result<(), Failure>) -> Result<()> {
    match answer {
        Ok(()) | Err(Failure::Response(zk::Error::NoNode)) => Ok(()),
        Err(failure) => Err(failure.error(Effect::Reads)),
    }
}

pub(crate) async fn connect(config: &Config, timeout: Duration) -> Result<zk::Client> {
    let connected = tokio::select! {
        connected = connect_to(config, &config.contents.hosts, timeout, false) => connected,
        unreachable = reachability::unreachable_error(config) => return Err(unreachable),
    };
    match connected {
        Err(cause) if cause.kind() == ErrorKind::Unavailable => {
            Err(reachability::why(config).await)
        }
        connected => connected,
    }
}

/// Returns how long a connection may be silent. The client library's default leaves too little time
/// for a renewal.
fn silence(config: &Config, timeout: Duration) -> Duration {
    config.connect_timeout.min(config.silence_timeout).min(SILENCE.max(timeout / 4))
}

pub(crate) async fn connect_to(
    config: &Config,
    hosts: &[String],
    timeout: Duration,
    eagerly: bool,
) -> Result<zk::Client> {
    let limit = if eagerly { config.connect_timeout } else { silence(config, timeout) };
    let mut connector = config
        .connector
        .clone()
        .unwrap_or_else(zk::Client::connector)
        .with_readonly(false)
        // With a version before 3.5, a created node would have no `czxid`, the fence.
        .with_server_version(u32::MAX, u32::MAX, u32::MAX)
        .with_session_timeout(timeout)
        .with_connection_timeout(limit);
    if eagerly {
        connector = connector.with_fail_eagerly();
    }
    if let Some(login) = &config.contents.login {
        connector = connector.with_auth("digest", login.as_bytes());
    }
    let connector = tls::secured(connector, config)?;
    let servers = u32::try_from(hosts.len()).unwrap_or(u32::MAX);
    let limit = config.connect_timeout.saturating_mul(servers.saturating_add(1));
    let servers = config.connect_string(hosts);
    match tokio::time::timeout(limit, connector.connect(&servers)).await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(zk::Error::AuthFailed)) => {
            Err(error(ErrorKind::Denied, "the servers reject the login"))
        }
        Ok(Err(cause)) => Err(match tls::refusal(&cause) {
            Some(what) => invalid(what),
            None => unreachable(),
        }
        .with_source(cause)),
        Err(_) => Err(unreachable()),
    }
}

fn unreachable() -> Error {
    error(ErrorKind::Unavailable, "no server of the ensemble accepts a session")
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.client.session_id())
            .field("timeout", &self.timeout())
            .field("state", &self.client.state())
            .finish_non_exhaustive()
    }
}
