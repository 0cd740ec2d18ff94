//! How to reach an etcd: the URL, and what it doesn't say.

use std::fmt;
use std::time::Duration;

use lockwright_core::{Error, Result, redact};

use crate::keys::Keys;
use crate::tls::Security;
use crate::url::{self, Problem};

/// How to reach an etcd.
///
/// [The crate's first page](crate#connecting) has the form of a URL and its parameters. Much of what
/// stands in it may also be set here.
///
/// ```no_run
/// # async fn example() -> lockwright_core::Result<()> {
/// use std::time::Duration;
///
/// let etcd = lockwright_etcd::Config::new("etcd:http://a:2379,http://b:2379,http://c:2379")?
///     .key_prefix("shop/locks/")
///     .response_timeout(Duration::from_secs(1))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Config {
    /// `http://host:port`, without a login.
    pub(crate) endpoints: Vec<String>,
    pub(crate) login: Option<(String, String)>,
    pub(crate) security: Security,
    pub(crate) keys: Keys,
    /// The URL without its secrets.
    shown: String,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) keep_alive: (Duration, Duration),
    pub(crate) for_diagnosis: bool,
}

impl Config {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) says what is wrong with it,
    /// without its password.
    pub fn new(url: &str) -> Result<Self> {
        let shown = url::shown(url);
        let contents = url::read(url).map_err(|Problem(what)| {
            let what = redact::hidden_password(url).unwrap_or(&what);
            Error::invalid_url(&shown, what, url::FORM).with_backend("etcd")
        })?;
        Self {
            endpoints: contents.endpoints,
            login: contents.login,
            security: contents.security,
            keys: contents.keys,
            shown,
            response_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(5),
            keep_alive: (Duration::from_millis(5_500), Duration::from_secs(1)),
            for_diagnosis: false,
        }
        .checked()
    }

    /// What all keys begin with; `lockwright/` by default. A Go program that is to exclude us and to
    /// be excluded locks this and the lock's name.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.keys.prefix = prefix.into();
        self
    }

    /// Takes names into the keys as they are. By default their slashes are percent-encoded, so that
    /// `a` and `a/b` are independent for other programs too: Go's lock of `a` waits for ours of
    /// `a/b` otherwise.
    #[must_use]
    pub fn raw_names(mut self, raw: bool) -> Self {
        self.keys.raw = raw;
        self
    }

    /// How long the cluster may take to answer a request; 3 s by default, in which it can elect a new
    /// leader. When the member that is asked has kept silent for a third of it, the next one is asked,
    /// and when all of them are down, it is tried until then whether one has come back. Afterwards the
    /// request has failed if it was never sent, and is indeterminate if it was.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// How long connecting may take, with the login and all; 5 s by default. All members are tried
    /// at the same time.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// After how long without a word from the member a ping is sent, and how long its answer may
    /// take: 5.5 s and 1 s by default. That is how a frozen member is noticed when nothing is
    /// asked of it. etcd hangs up on who pings more often than its `--grpc-keepalive-min-time`
    /// says, which is 5 s by default.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration, limit: Duration) -> Self {
        self.keep_alive = (interval, limit);
        self
    }

    /// Connects also to members that can't decide anything, as they have no leader, so that
    /// [`doctor`](lockwright_core::DistributedLock::doctor) can look at them.
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    /// Checks what was set since the URL was read.
    pub(crate) fn checked(mut self) -> Result<Self> {
        let prefix = &self.keys.prefix;
        if prefix.chars().any(char::is_control) || prefix.len() > 512 {
            return Err(invalid("the key prefix has control characters or more than 512 bytes"));
        }
        let (interval, limit) = self.keep_alive;
        // For ever, to all who would have to add it to an instant.
        for time in [&mut self.response_timeout, &mut self.connect_timeout] {
            *time = (*time).min(LONGEST);
        }
        self.keep_alive = (interval.min(LONGEST), limit.min(LONGEST));
        let times = [self.response_timeout, self.connect_timeout, interval, limit];
        if times.iter().any(Duration::is_zero) {
            return Err(invalid("a time-out of zero lets nothing through"));
        }
        Ok(self)
    }
}

const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid_config(message).with_backend("etcd")
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("keys", &self.keys)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}
