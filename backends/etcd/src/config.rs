use std::fmt;
use std::time::Duration;

use etcd_client::ConnectOptions;
use lockwright_core::{CredentialProvider, Credentials, Error, Result, redact};

use crate::keys::Keys;
use crate::tls::Security;
use crate::url;

/// Settings of a connection to etcd.
///
/// [The crate's page](crate#connecting) describes the URL.
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
    pub(crate) endpoints: Vec<String>,
    login: Option<(String, String)>,
    credentials: Option<CredentialProvider>,
    pub(crate) driver_options: Option<ConnectOptions>,
    pub(crate) security: Security,
    pub(crate) keys: Keys,
    shown: String,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) keep_alive: (Duration, Duration),
    pub(crate) for_diagnosis: bool,
}

impl Config {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed. The
    /// message omits the password.
    pub fn new(url: &str) -> Result<Self> {
        let shown = redact::shown(url, &url::PARAMETERS);
        let contents = url::read(url).map_err(|what| {
            let what = redact::hidden_password(url).unwrap_or(&what);
            Error::invalid_url(&shown, what, url::FORM).with_backend("etcd")
        })?;
        Self {
            endpoints: contents.endpoints,
            login: contents.login,
            credentials: None,
            driver_options: None,
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

    /// Sets the prefix of all keys; `lockwright/` by default. To share a lock, a Go program uses
    /// this prefix followed by the lock's name.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.keys.prefix = prefix.into();
        self
    }

    /// Sets whether keys contain names unchanged. By default, slashes in names are percent-encoded.
    /// With unchanged names, a Go program that locks `a` waits for Lockwright's lock of `a/b`.
    #[must_use]
    pub fn raw_names(mut self, raw: bool) -> Self {
        self.keys.raw = raw;
        self
    }

    /// Sets the timeout of a request; 3 s by default, long enough to elect a leader.
    ///
    /// If the first attempt gets no response within a third of this time, the client sends the
    /// request to another member. While all members are down, it retries. After the timeout, a
    /// change that may have been sent is indeterminate, and any other request has failed.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets the timeout for connecting and logging in; 5 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the interval of pings on a silent connection, and a ping's timeout: 5.5 s and 1 s by
    /// default. If the interval is less than etcd's `--grpc-keepalive-min-time`, by default 5 s,
    /// etcd closes the connection.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration, limit: Duration) -> Self {
        self.keep_alive = (interval, limit);
        self
    }

    /// Sets a provider of credentials, which replace the login in the URL. The client calls it for
    /// each connection to a member, and reconnects after etcd rejects the password of an open
    /// connection.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Returns whether the client may have a login or a certificate. The driver's options don't
    /// show theirs.
    pub(crate) fn may_have_login(&self) -> bool {
        self.login.is_some()
            || self.credentials.is_some()
            || self.security.files.client.is_some()
            || self.driver_options.is_some()
    }

    pub(crate) async fn login(&self) -> Result<Option<(String, String)>> {
        let Some(provider) = &self.credentials else { return Ok(self.login.clone()) };
        let Credentials { username, password } = provider.credentials().await?;
        let in_url = || self.login.as_ref().map(|(user, _)| user.clone());
        match username.or_else(in_url) {
            Some(user) => Ok(Some((user, password))),
            None => Err(invalid(
                "neither the credentials nor the URL have a user name; set `Credentials::username`",
            )),
        }
    }

    /// Sets the driver's options, such as those for `etcd_client::Client::connect`.
    ///
    /// Options with TLS need members with `https:`, and members with `https:` need options with
    /// TLS. The URL must have no files. A login in the URL or from
    /// [`credentials`](Self::credentials) replaces that of the options. Lockwright also replaces
    /// the connect timeout, the HTTP/2 keep-alive and `require_leader`, and refreshes the login's
    /// token. All other options apply, such as a request's timeout.
    #[must_use]
    pub fn options(mut self, options: ConnectOptions) -> Self {
        self.driver_options = Some(options);
        self
    }

    /// Allows connections to members without a leader, for
    /// [`doctor`](lockwright_core::DistributedLock::doctor).
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    pub(crate) fn checked(mut self) -> Result<Self> {
        let prefix = &self.keys.prefix;
        if prefix.chars().any(char::is_control) || prefix.len() > 512 {
            return Err(invalid("the key prefix has control characters or more than 512 bytes"));
        }
        let files = &self.security.files;
        if self.driver_options.is_some() && (files.authority.is_some() || files.client.is_some()) {
            return Err(invalid(
                "the driver's options replace the certificates in the URL; omit one of them",
            ));
        }
        let (interval, limit) = self.keep_alive;
        for time in [&mut self.response_timeout, &mut self.connect_timeout] {
            *time = (*time).min(LONGEST);
        }
        self.keep_alive = (interval.min(LONGEST), limit.min(LONGEST));
        let times = [self.response_timeout, self.connect_timeout, interval, limit];
        if times.iter().any(Duration::is_zero) {
            return Err(invalid("a timeout of zero allows no request; use a longer one"));
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
