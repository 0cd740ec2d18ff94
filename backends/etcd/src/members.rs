//! The connection to a member. All requests go to one member until it fails, because a renewal's
//! proof needs two responses over one connection (see `KeptAlive`). `etcd_client` would rotate
//! among all members, even frozen ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions};
use lockwright_core::backend_util::{Jitter, lock};
use lockwright_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::config::Config;
use crate::errors::{Effect, ErrorClass, classify, error, words};
use crate::runtime::{self, Runtime};
use crate::tls;

const LAST: Duration = Duration::from_millis(300);

const PAUSE: Duration = Duration::from_millis(50);

const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const SILENCE: Duration = Duration::from_millis(200);

const LONGEST_CHECK_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) member: usize,
    pub(crate) number: u64,
    patience: Duration,
    is_suspect: watch::Sender<bool>,
    /// True if a new connection worked while this one was silent.
    is_dead: watch::Sender<bool>,
    is_being_checked: AtomicBool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("member", &self.member).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) async fn until_suspect(&self) {
        until(&self.is_suspect).await;
    }

    fn is_suspect(&self) -> bool {
        *self.is_suspect.borrow()
    }
}

async fn until(flag: &watch::Sender<bool>) {
    let _ = flag.subscribe().wait_for(|is_set| *is_set).await;
}

/// A failed attempt to connect. Until the pause ends, all requests fail with its error, so that
/// they don't flood a starting cluster.
#[derive(Debug)]
struct Round {
    failure: LinkError,
    pause: Duration,
    until: Instant,
}

#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) config: Config,
    runtime: Runtime,
    current: Mutex<Option<Arc<Link>>>,
    connecting: tokio::sync::Mutex<()>,
    round: Mutex<Option<Round>>,
    numbers: AtomicU64,
}

pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) link: Arc<Link>,
    /// True if an unanswered copy of the request may still be carried out.
    pub(crate) was_unsure: bool,
}

/// A request in flight. If dropped without a response, the connection is checked.
struct Unanswered<'a> {
    members: &'a Arc<Members>,
    link: &'a Arc<Link>,
    is_answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.members.check(self.link);
        }
    }
}

#[derive(Debug)]
pub(crate) struct LinkError {
    pub(crate) error: Error,
    may_pass: bool,
}

impl LinkError {
    fn new(kind: ErrorKind, message: impl Into<String>, may_pass: bool) -> Self {
        Self { error: error(kind, message), may_pass }
    }

    fn runtime_is_gone() -> Self {
        Self { error: runtime::gone(), may_pass: false }
    }

    fn again(&self) -> Self {
        Self::new(self.error.kind(), self.error.message(), self.may_pass)
    }
}

impl Members {
    pub(crate) fn new(config: Config, runtime: Runtime) -> Self {
        Self {
            config,
            runtime,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            round: Mutex::default(),
            numbers: AtomicU64::new(1),
        }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime.handle
    }

    /// Returns a request's timeout: at most half of `ttl`, to leave time for a second one.
    pub(crate) fn limit(&self, ttl: Duration) -> Duration {
        self.config.response_timeout.min(ttl / 2)
    }

    /// Sends a request, and repeats it at other members for at most `limit`. After the error
    /// [`is_lease_not_found`](crate::errors::is_lease_not_found), no attempt takes effect later,
    /// and the lease's keys are gone.
    pub(crate) async fn ask<T, F>(
        self: &Arc<Self>,
        effect: Effect,
        limit: Duration,
        request: impl Fn(Arc<Link>) -> F,
    ) -> Result<Answer<T>>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let end = Instant::now() + limit;
        let mut last: Option<Error> = None;
        let mut was_unsure = false;
        let mut pause = PAUSE;
        let failed = |failure: Error, was_unsure: bool| {
            let is_unsure = was_unsure && failure.kind() != ErrorKind::Indeterminate;
            if is_unsure && effect == Effect::Changes {
                effect
                    .unanswered("an earlier attempt of the request was not answered")
                    .with_source(failure)
            } else {
                failure
            }
        };
        loop {
            let link = match timeout_at(end, self.link()).await {
                Ok(Ok(link)) => link,
                Ok(Err(LinkError { error, may_pass: true })) if Instant::now() + PAUSE < end => {
                    last = Some(error);
                    sleep_until((Instant::now() + pause).min(end - PAUSE)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Ok(Err(LinkError { error, .. })) => return Err(failed(error, was_unsure)),
                Err(_) => {
                    let silent = || error(ErrorKind::Unavailable, "no member answers");
                    return Err(failed(last.unwrap_or_else(silent), was_unsure));
                }
            };
            let left = end.saturating_duration_since(Instant::now());
            let is_first = last.is_none() && self.config.endpoints.len() > 1;
            let patience = if is_first { limit / 3 } else { limit }.min(left);
            let sent = Instant::now();
            let answer = self.answer(&link, patience, request(Arc::clone(&link))).await;
            let (class, failure) = match answer {
                Some(Ok(value)) => return Ok(Answer { value, link, was_unsure }),
                Some(Err(cause)) => classify(&cause, effect),
                None => {
                    let member = &self.config.endpoints[link.member];
                    let what = format!("{member} did not answer within {:?}", sent.elapsed());
                    (ErrorClass::Unsure, effect.unanswered(&what))
                }
            };
            match class {
                ErrorClass::NoLease => return Err(failure),
                ErrorClass::Refused => return Err(failed(failure, was_unsure)),
                ErrorClass::Unsure => was_unsure = true,
                ErrorClass::Elsewhere | ErrorClass::Later => {}
            }
            if class != ErrorClass::Later {
                self.suspect(&link);
            }
            if Instant::now() + PAUSE >= end {
                return Err(failed(failure, was_unsure));
            }
            last = Some(failure);
            sleep(PAUSE).await;
        }
    }

    async fn answer<T>(
        self: &Arc<Self>,
        link: &Arc<Link>,
        limit: Duration,
        request: impl Future<Output = T>,
    ) -> Option<T> {
        let mut unanswered = Unanswered { members: self, link, is_answered: false };
        let dies = async {
            let mut pause = SILENCE;
            while timeout(pause, until(&link.is_dead)).await.is_err() {
                self.check(link);
                pause = (pause * 2).min(LONGEST_CHECK_PAUSE);
            }
        };
        let answer = tokio::select! {
            biased;
            answer = timeout(limit, request) => answer.ok(),
            () = dies => None,
        };
        unanswered.is_answered = answer.is_some();
        answer
    }

    /// Checks a silent connection, and replaces it if a new connection responds first. Otherwise,
    /// no request is repeated.
    fn check(self: &Arc<Self>, link: &Arc<Link>) {
        let is_overdue = link.is_suspect() || self.runtime.has_ended();
        if is_overdue || link.is_being_checked.swap(true, Ordering::SeqCst) {
            return;
        }
        let (members, link) = (Arc::downgrade(self), Arc::clone(link));
        self.runtime().spawn(async move {
            // A live member rejects the empty key without asking the others.
            let (mut kv, request) =
                (link.client.kv_client(), GetOptions::new().with_serializable());
            let lives = kv.get("", Some(request));
            tokio::pin!(lives);
            let mut pause = link.patience;
            while timeout(pause, &mut lives).await.is_err() {
                let Some(members) = members.upgrade().filter(|_| !link.is_suspect()) else { break };
                tokio::select! {
                    _ = &mut lives => break,
                    () = members.replace(&link) => {}
                }
                pause = (pause * 2).min(LONGEST_CHECK_PAUSE);
            }
            link.is_being_checked.store(false, Ordering::SeqCst);
        });
    }

    async fn replace(&self, link: &Arc<Link>) {
        let _only_one = self.connecting.lock().await;
        if link.is_suspect() {
            return;
        }
        match self.connect(Some(link.member)).await {
            Ok(new) => {
                self.take(new);
                link.is_dead.send_replace(true);
                self.suspect(link);
            }
            Err(link_error) => {
                tracing::debug!(failure = %link_error.error, "etcd: a silent connection can't be replaced");
            }
        }
    }

    fn take(&self, link: Link) -> Arc<Link> {
        let link = Arc::new(link);
        *lock(&self.round) = None;
        tracing::debug!(member = self.config.endpoints[link.member], "etcd: asking this member");
        *lock(&self.current) = Some(Arc::clone(&link));
        link
    }

    pub(crate) fn suspect(&self, link: &Arc<Link>) {
        link.is_suspect.send_replace(true);
        tracing::debug!(member = self.config.endpoints[link.member], "etcd: leaving this member");
    }

    pub(crate) async fn link(&self) -> Result<Arc<Link>, LinkError> {
        if self.runtime.has_ended() {
            return Err(LinkError::runtime_is_gone());
        }
        if let Some(link) = self.in_use() {
            return Ok(link);
        }
        let _only_one = self.connecting.lock().await;
        if let Some(link) = self.in_use() {
            return Ok(link);
        }
        if let Some(round) = lock(&self.round).as_ref().filter(|it| Instant::now() < it.until) {
            return Err(round.failure.again());
        }
        let failed = lock(&self.current).as_ref().map(|link| link.member);
        match self.connect(failed).await {
            Ok(link) => Ok(self.take(link)),
            Err(failure) => {
                let mut round = lock(&self.round);
                let longer = |before: &Round| (before.pause * 2).min(LONGEST_PAUSE);
                let pause = round.as_ref().map_or(PAUSE, longer);
                let until = Instant::now() + pause / 2 + Jitter::default().below(pause / 2);
                *round = Some(Round { failure: failure.again(), pause, until });
                Err(failure)
            }
        }
    }

    async fn connect(&self, failed: Option<usize>) -> Result<Link, LinkError> {
        let begun = Instant::now();
        let mut trying = JoinSet::new();
        for (member, endpoint) in self.config.endpoints.iter().cloned().enumerate() {
            let config = self.config.clone();
            let is_last = failed == Some(member) && self.config.endpoints.len() > 1;
            let connecting = async move {
                if is_last {
                    sleep(LAST).await;
                }
                let found = timeout(config.connect_timeout, probed(&config, &endpoint)).await;
                let silence = |_| {
                    let message = format!(
                        "{endpoint} did not answer within {:?}; is it an etcd, does it run, does \
                         it reach the other members, and does it speak TLS if it is meant to?",
                        config.connect_timeout
                    );
                    Err(LinkError::new(ErrorKind::Unavailable, message, false))
                };
                (member, found.unwrap_or_else(silence))
            };
            trying.spawn_on(connecting, self.runtime());
        }
        let mut failures = Vec::new();
        while let Some(tried) = trying.join_next().await {
            match tried {
                Ok((member, Ok(client))) => {
                    return Ok(Link {
                        client,
                        member,
                        number: self.numbers.fetch_add(1, Ordering::Relaxed),
                        // Even on a slow network, a response shouldn't take longer than connecting
                        // did.
                        patience: begun
                            .elapsed()
                            .clamp(SILENCE, self.config.response_timeout.max(SILENCE)),
                        is_suspect: watch::Sender::new(false),
                        is_dead: watch::Sender::new(false),
                        is_being_checked: AtomicBool::new(false),
                    });
                }
                Ok((_, Err(failure))) => failures.push(failure),
                Err(_) => {}
            }
        }
        if self.runtime.has_ended() {
            return Err(LinkError::runtime_is_gone());
        }
        Err(summed_up(failures))
    }

    pub(crate) fn in_use(&self) -> Option<Arc<Link>> {
        lock(&self.current).clone().filter(|link| !link.is_suspect())
    }
}

fn summed_up(mut failures: Vec<LinkError>) -> LinkError {
    failures.sort_by_key(|failure| match failure.error.kind() {
        ErrorKind::Denied => 0,
        ErrorKind::InvalidConfig => 1,
        _ => 2,
    });
    let Some(first) = failures.first() else {
        return LinkError::new(ErrorKind::Unavailable, "no member answers", true);
    };
    let kind = first.error.kind();
    let may_pass = kind == ErrorKind::Unavailable || failures.iter().any(|it| it.may_pass);
    let mut all = Vec::new();
    for message in failures.iter().map(|failure| failure.error.message()) {
        if !all.contains(&message) {
            all.push(message);
        }
    }
    LinkError::new(kind, all.join("; "), may_pass)
}

async fn options(config: &Config) -> Result<ConnectOptions> {
    let (interval, limit) = config.keep_alive;
    let mut options = config
        .driver_options
        .clone()
        .unwrap_or_default()
        .with_connect_timeout(config.connect_timeout)
        .with_keep_alive(interval, limit)
        // etcd closes a connection that pings without a request in flight.
        .with_keep_alive_while_idle(false)
        .with_require_leader(!config.for_diagnosis)
        .with_auto_token_refresh(true);
    if let Some((user, password)) = config.login().await? {
        options = options.with_user(user, password);
    }
    if config.driver_options.is_some() {
        return Ok(options);
    }
    config.security.apply(options).map_err(|what| error(ErrorKind::InvalidConfig, what))
}

pub(crate) async fn client(config: &Config, endpoint: &str) -> Result<Client, LinkError> {
    let options = options(config).await.map_err(|error| {
        let may_pass = error.kind() == ErrorKind::Unavailable;
        LinkError { error, may_pass }
    })?;
    let connected = Client::connect([endpoint], Some(options)).await;
    connected.map_err(|cause| no_connection(endpoint, &cause))
}

async fn probed(config: &Config, endpoint: &str) -> Result<Client, LinkError> {
    let client = client(config, endpoint).await?;
    let looked = if config.for_diagnosis {
        client.maintenance_client().status().await.map(drop)
    } else {
        let nothing = GetOptions::new().with_count_only();
        client.kv_client().get(config.keys.probe_key(), Some(nothing)).await.map(drop)
    };
    looked.map_err(|cause| no_connection(endpoint, &cause))?;
    Ok(client)
}

fn no_connection(endpoint: &str, cause: &etcd_client::Error) -> LinkError {
    let said = words(cause);
    let (class, failure) = classify(cause, Effect::Reads);
    let may_pass = matches!(class, ErrorClass::Elsewhere | ErrorClass::Later);
    let refusal = if endpoint.starts_with("https") { tls::refusal(&said) } else { None };
    if let Some((kind, what)) = refusal {
        LinkError::new(kind, format!("{endpoint}: {what} ({said})"), false)
    } else if may_pass || class == ErrorClass::Refused {
        let (kind, what) = (failure.kind(), format!("{endpoint}: {}", failure.message()));
        LinkError::new(kind, what, may_pass && kind == ErrorKind::Unavailable)
    } else {
        let what = if said.contains("onnection refused") {
            format!("{endpoint} refuses connections; does the server run?")
        } else {
            let doubt = tls::doubt(endpoint);
            format!("can't connect to {endpoint}: {said}; is it an etcd, and {doubt}?")
        };
        let kind = match cause {
            etcd_client::Error::InvalidArgs(_) => ErrorKind::InvalidConfig,
            _ => ErrorKind::Unavailable,
        };
        LinkError::new(kind, what, false)
    }
}
