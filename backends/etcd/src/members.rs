//! All requests go to one member until it fails, because only responses over one connection prove a
//! renewal (see `KeptAlive`). `etcd_client` would rotate among all members, even frozen ones.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions};
use lockwright_core::backend_util::{Jitter, lock};
use lockwright_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
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
    is_suspect: AtomicBool,
    /// True if a new connection worked while this one was silent.
    is_dead: AtomicBool,
    is_being_checked: AtomicBool,
    changed: Notify,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("member", &self.member).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) async fn until_suspect(&self) {
        self.until(&self.is_suspect).await;
    }

    async fn until(&self, flag: &AtomicBool) {
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if flag.load(Ordering::SeqCst) {
                return;
            }
            notified.await;
        }
    }

    /// Waits for any response. The request lacks a key, so the member rejects it without asking
    /// others.
    async fn says_anything(&self) {
        let request = GetOptions::new().with_serializable();
        let _ = self.client.kv_client().get("", Some(request)).await;
    }

    fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::SeqCst)
    }
}

/// A failed attempt to connect. During the pause after it, all requests fail with its error, so
/// that they don't flood a starting cluster.
#[derive(Debug)]
struct Round {
    kind: ErrorKind,
    what: String,
    may_pass: bool,
    pause: Duration,
    until: Instant,
}

impl Round {
    fn failed(link_error: &LinkError, before: Option<&Self>) -> Self {
        let pause = before.map_or(PAUSE, |round| (round.pause * 2).min(LONGEST_PAUSE));
        Self {
            kind: link_error.error.kind(),
            what: link_error.error.message().to_owned(),
            may_pass: link_error.may_pass,
            pause,
            until: Instant::now() + pause / 2 + Jitter::default().below(pause / 2),
        }
    }

    fn answer(&self) -> Result<(), LinkError> {
        if Instant::now() >= self.until {
            return Ok(());
        }
        Err(LinkError { error: error(self.kind, self.what.as_str()), may_pass: self.may_pass })
    }
}

#[derive(Debug)]
pub(crate) struct Members {
    config: Config,
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

/// A request in flight. If the caller drops it, the connection is checked.
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
pub(crate) enum RequestError {
    /// The lease doesn't exist. The request has no effect, even if a copy arrives later.
    NoLease,
    Failed(Error),
}

#[derive(Debug)]
pub(crate) struct LinkError {
    pub(crate) error: Error,
    may_pass: bool,
}

impl RequestError {
    /// Replaces a `From` implementation, which would break type inference in dependent crates.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::NoLease => error(
                ErrorKind::Unavailable,
                "the lease of the claim expired during the request; retry",
            ),
        }
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

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Returns a request's timeout: at most half of `ttl`, so that a second request fits in.
    pub(crate) fn limit(&self, ttl: Duration) -> Duration {
        self.config.response_timeout.min(ttl / 2)
    }

    /// Returns how long to wait for one member's response.
    fn patience(&self, limit: Duration, is_first: bool) -> Duration {
        if is_first && self.config.endpoints.len() > 1 { limit / 3 } else { limit }
    }

    /// Sends a request, and repeats it at other members for at most `limit`.
    pub(crate) async fn ask<T, F>(
        self: &Arc<Self>,
        effect: Effect,
        limit: Duration,
        request: impl Fn(Arc<Link>) -> F,
    ) -> Result<Answer<T>, RequestError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let end = Instant::now() + limit;
        let mut last: Option<Error> = None;
        let mut was_unsure = false;
        let mut pause = PAUSE;
        let failed = |failure: Error, was_unsure: bool| {
            let is_unsure = was_unsure && failure.kind() != ErrorKind::Indeterminate;
            RequestError::Failed(if is_unsure && effect == Effect::Changes {
                effect
                    .unanswered("an earlier attempt of the request was not answered")
                    .with_source(failure)
            } else {
                failure
            })
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
            let patience = self.patience(limit, last.is_none()).min(left);
            let sent = Instant::now();
            let verdict = match self.answer(&link, patience, request(Arc::clone(&link))).await {
                Some(Ok(value)) => return Ok(Answer { value, link, was_unsure }),
                Some(Err(cause)) => classify(&cause, effect),
                None => ErrorClass::Unsure(effect.unanswered(&format!(
                    "{} did not answer within {:?}",
                    self.config.endpoints[link.member],
                    sent.elapsed()
                ))),
            };
            let is_its_own = !matches!(verdict, ErrorClass::Later(_));
            match verdict {
                ErrorClass::NoLease => return Err(RequestError::NoLease),
                ErrorClass::Refused(failure) => return Err(failed(failure, was_unsure)),
                ErrorClass::Elsewhere(failure) | ErrorClass::Later(failure) => last = Some(failure),
                ErrorClass::Unsure(failure) => {
                    was_unsure = true;
                    last = Some(failure);
                }
            }
            if is_its_own {
                self.suspect(&link);
            }
            if Instant::now() + PAUSE >= end {
                let failure = last.expect("it was just set");
                return Err(failed(failure, was_unsure));
            }
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
            while timeout(pause, link.until(&link.is_dead)).await.is_err() {
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

    /// Checks a silent connection, and replaces it if a new connection responds first. A slow
    /// member's connection is kept, so that no request is repeated.
    fn check(self: &Arc<Self>, link: &Arc<Link>) {
        let is_overdue = link.is_suspect() || self.runtime.has_ended();
        if is_overdue || link.is_being_checked.swap(true, Ordering::SeqCst) {
            return;
        }
        let (members, link) = (Arc::downgrade(self), Arc::clone(link));
        self.runtime().spawn(async move {
            let lives = link.says_anything();
            tokio::pin!(lives);
            let mut pause = link.patience;
            while timeout(pause, &mut lives).await.is_err() {
                let Some(members) = members.upgrade().filter(|_| !link.is_suspect()) else { break };
                tokio::select! {
                    () = &mut lives => break,
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
                link.is_dead.store(true, Ordering::SeqCst);
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
        link.is_suspect.store(true, Ordering::SeqCst);
        link.changed.notify_waiters();
        tracing::debug!(member = self.config.endpoints[link.member], "etcd: leaving this member");
    }

    pub(crate) async fn link(&self) -> Result<Arc<Link>, LinkError> {
        if self.runtime.has_ended() {
            return Err(LinkError { error: runtime::gone(), may_pass: false });
        }
        if let Some(link) = self.in_use() {
            return Ok(link);
        }
        let _only_one = self.connecting.lock().await;
        if let Some(link) = self.in_use() {
            return Ok(link);
        }
        lock(&self.round).as_ref().map_or(Ok(()), |round| round.answer())?;
        let failed = lock(&self.current).as_ref().map(|link| link.member);
        match self.connect(failed).await {
            Ok(link) => Ok(self.take(link)),
            Err(link_error) => {
                let mut round = lock(&self.round);
                *round = Some(Round::failed(&link_error, round.as_ref()));
                Err(link_error)
            }
        }
    }

    /// Connects to the first member that responds, and tries `failed` last.
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
                    Err(LinkError {
                        error: error(ErrorKind::Unavailable, message),
                        may_pass: false,
                    })
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
                        // A response takes less time than connecting did, even on a slow network.
                        patience: begun
                            .elapsed()
                            .clamp(SILENCE, self.config.response_timeout.max(SILENCE)),
                        is_suspect: AtomicBool::new(false),
                        is_dead: AtomicBool::new(false),
                        is_being_checked: AtomicBool::new(false),
                        changed: Notify::new(),
                    });
                }
                Ok((_, Err(failure))) => failures.push(failure),
                Err(_) => {}
            }
        }
        if self.runtime.has_ended() {
            return Err(LinkError { error: runtime::gone(), may_pass: false });
        }
        Err(summed_up(failures))
    }

    pub(crate) fn in_use(&self) -> Option<Arc<Link>> {
        lock(&self.current).clone().filter(|link| !link.is_suspect())
    }
}

fn summed_up(failures: Vec<LinkError>) -> LinkError {
    let is_electing = failures.iter().any(|failure| failure.may_pass);
    let mut failures: Vec<Error> =
        failures.into_iter().map(|link_error| link_error.error).collect();
    failures.sort_by_key(|failure| match failure.kind() {
        ErrorKind::Denied => 0,
        ErrorKind::InvalidConfig => 1,
        _ => 2,
    });
    let Some(first) = failures.first() else {
        return LinkError {
            error: error(ErrorKind::Unavailable, "no member answers"),
            may_pass: true,
        };
    };
    let may_pass = is_electing || first.kind() == ErrorKind::Unavailable;
    let mut all = Vec::new();
    for failure in &failures {
        if !all.contains(&failure.message()) {
            all.push(failure.message());
        }
    }
    LinkError { error: error(first.kind(), all.join("; ")), may_pass }
}

pub(crate) fn options(config: &Config) -> Result<ConnectOptions> {
    let (interval, limit) = config.keep_alive;
    let mut options = ConnectOptions::new()
        .with_connect_timeout(config.connect_timeout)
        .with_keep_alive(interval, limit)
        // etcd closes a connection that pings without a request in flight.
        .with_keep_alive_while_idle(false)
        .with_require_leader(!config.for_diagnosis);
    if let Some((user, password)) = &config.login {
        options = options.with_user(user, password).with_auto_token_refresh(true);
    }
    config.security.apply(options).map_err(|what| error(ErrorKind::InvalidConfig, what))
}

pub(crate) async fn client(config: &Config, endpoint: &str) -> Result<Client, LinkError> {
    let options = options(config).map_err(|error| LinkError { error, may_pass: false })?;
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
    let sure = |kind, what: String| LinkError { error: error(kind, what), may_pass: false };
    if endpoint.starts_with("https")
        && let Some((kind, what)) = tls::refusal(&said)
    {
        return sure(kind, format!("{endpoint}: {what} ({said})"));
    }
    match classify(cause, Effect::Reads) {
        ErrorClass::Refused(failure) => {
            sure(failure.kind(), format!("{endpoint}: {}", failure.message()))
        }
        ErrorClass::Elsewhere(failure) | ErrorClass::Later(failure) => LinkError {
            error: error(failure.kind(), format!("{endpoint}: {}", failure.message())),
            may_pass: failure.kind() == ErrorKind::Unavailable,
        },
        ErrorClass::NoLease | ErrorClass::Unsure(_) if said.contains("onnection refused") => sure(
            ErrorKind::Unavailable,
            format!("{endpoint} refuses connections; does the server run?"),
        ),
        ErrorClass::NoLease | ErrorClass::Unsure(_) => sure(
            ErrorKind::Unavailable,
            format!(
                "can't connect to {endpoint}: {said}; is it an etcd, and {}?",
                tls::doubt(endpoint)
            ),
        ),
    }
}
