use std::fmt;
use std::time::Duration;

use lockwright_core::{Error, Result, redact};
use zookeeper_client::{Acls, Connector, Permission};

use crate::errors::{BACKEND, invalid};
use crate::url::{self, Contents, MAX_TIMEOUT};

/// Settings of a connection to ZooKeeper.
///
/// [The crate's page](crate#connecting) describes the URL. Special characters must be
/// percent-encoded.
///
/// ```no_run
/// # async fn example() -> lockwright_core::Result<()> {
/// use std::time::Duration;
///
/// let zookeeper = lockwright_zookeeper::Config::new("zookeeper:a,b,c")?
///     .prefix("/shop/locks")
///     .response_timeout(Duration::from_millis(500))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) contents: Contents,
    pub(crate) connector: Option<Connector>,
    pub(crate) acls: Option<Acls<'static>>,
    shown: String,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) silence_timeout: Duration,
    pub(crate) idle_timeout: Duration,
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
            Error::invalid_url(&shown, what, url::FORM).with_backend(BACKEND)
        })?;
        Ok(Self {
            contents,
            connector: None,
            acls: None,
            shown,
            response_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            silence_timeout: Duration::from_millis(1_200),
            idle_timeout: Duration::from_secs(60),
            for_diagnosis: false,
        })
    }

    /// Sets the parent node of all locks: `/lockwright` by default.
    ///
    /// With `/`, the lock `orders` is the path `/orders`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.contents.prefix = prefix.into();
        self
    }

    /// Sets the `tickTime` that the client assumes, by default half of the servers' shortest
    /// session timeout.
    ///
    /// Set it if the servers' `minSessionTimeout` is less than two ticks.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.contents.tick = Some(tick);
        self
    }

    /// Sets the response timeout of a request; 2 s by default.
    ///
    /// After this time, the outcome of a change is indeterminate. Keep the timeout well under a
    /// third of the TTL, so that a hold survives a lost response.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets how long one server may take to accept a session; 2 s by default, and at most the
    /// [silence timeout](Self::silence_timeout).
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets how long a connection may be silent before the client moves the session to a new
    /// connection; 1.2 s by default.
    ///
    /// Times above a quarter of the session's timeout, or 300 ms if longer, have no effect. An
    /// idle connection is pinged after three eighths of this time.
    #[must_use]
    pub fn silence_timeout(mut self, limit: Duration) -> Self {
        self.silence_timeout = limit;
        self
    }

    /// Sets how long an unused session stays open; a minute by default.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = limit;
        self
    }

    /// Sets the driver's connector, such as the one with which the program connects.
    ///
    /// Its logins, SASL and TLS options apply to each session, so the URL must have none:
    /// `zookeeper:HOST:PORT,…`. Lockwright replaces the connector's timeouts and server version, and
    /// allows no read-only servers. The connector must not have an existing session, and be neither
    /// detached nor eager to fail.
    ///
    /// By default, only the connector's logins may access the nodes that the client creates. For
    /// a connector without a login, set [`acls`](Self::acls).
    #[must_use]
    pub fn connector(mut self, connector: Connector) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Sets the access rights to the nodes that the client creates. They must give
    /// [`Permission::ALL`] to all clients that share the locks.
    ///
    /// The default is [`Acls::creator_all`] with a login in the URL or with a
    /// [connector](Self::connector), and [`Acls::anyone_all`] otherwise.
    #[must_use]
    pub fn acls(mut self, acls: Acls<'static>) -> Self {
        self.acls = Some(acls);
        self
    }

    /// Returns whether the client may have a login. A connector doesn't show its logins.
    pub(crate) fn may_have_login(&self) -> bool {
        self.contents.login.is_some() || self.connector.is_some()
    }

    /// Allows connections to servers that can't hold locks, for
    /// [`doctor`](lockwright_core::DistributedLock::doctor).
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    pub(crate) fn checked(mut self) -> Result<Self> {
        self.contents.prefix = url::prefix(&self.contents.prefix).map_err(invalid)?;
        let times = [self.response_timeout, self.connect_timeout, self.silence_timeout];
        if times.iter().any(Duration::is_zero) {
            return Err(invalid("a timeout of zero allows no request; use a longer one"));
        }
        if !self.contents.tick.is_none_or(url::is_tick) {
            return Err(invalid("a tick lasts for a millisecond to 24 days"));
        }
        for limit in [
            &mut self.response_timeout,
            &mut self.connect_timeout,
            &mut self.silence_timeout,
            &mut self.idle_timeout,
        ] {
            *limit = (*limit).min(MAX_TIMEOUT);
        }
        let gives_all = |acls: Acls<'_>| acls.iter().any(|acl| acl.permission() == Permission::ALL);
        if !self.acls.is_none_or(gives_all) {
            return Err(invalid("the access rights let no client lock; add `Permission::ALL`"));
        }
        if let Some(settings) = self.connector_settings() {
            let Contents { login, tls, .. } = &self.contents;
            if login.is_some() || tls.is_some() {
                return Err(invalid(
                    "the connector replaces the URL's login and TLS; write zookeeper: without a login",
                ));
            }
            let required = ["session: None", "detached: false", "fail_eagerly: false"];
            if !required.iter().all(|setting| settings.contains(setting)) {
                return Err(invalid(
                    "Lockwright opens and closes its own sessions; use a connector without \
                     `with_session`, `with_detached` and `with_fail_eagerly`",
                ));
            }
        }
        Ok(self)
    }

    /// A connector has no getters.
    fn connector_settings(&self) -> Option<String> {
        self.connector.as_ref().map(|connector| format!("{connector:?}"))
    }

    pub(crate) fn uses_tls(&self) -> bool {
        // Unknown counts as TLS.
        let has_tls = |settings: String| match cfg!(feature = "tls") {
            true => !settings.contains("tls: None"),
            false => settings.contains("tls: Some("),
        };
        self.contents.tls.is_some() || self.connector_settings().is_some_and(has_tls)
    }

    pub(crate) fn connect_string(&self, hosts: &[String]) -> String {
        let protocol = if self.uses_tls() { "tcp+tls://" } else { "" };
        let hosts = hosts.iter().map(|host| format!("{protocol}{host}"));
        format!("{}{}", hosts.collect::<Vec<_>>().join(","), self.contents.chroot)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("prefix", &self.contents.prefix)
            .field("tick", &self.contents.tick)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connector_without_tls_is_recognised() {
        let connector = zookeeper_client::Client::connector();
        assert!(!Config::new("zookeeper:a").unwrap().connector(connector).uses_tls());
    }
}
