use std::fmt;
use std::time::Duration;

use lockwright_core::backend_util::tls::choose_provider;
use lockwright_core::{CredentialProvider, Credentials, Error, Result, redact};
use redis::ConnectionInfo;

use crate::replicas::Replicas;
use crate::topology::Topology;
use crate::url;

/// Connection settings.
///
/// [The crate's documentation](crate#connecting) describes the URLs, in which special characters
/// are percent-encoded: `/` is `%2F`.
#[derive(Clone)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) shown: String,
    pub(crate) key_prefix: String,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) for_diagnosis: bool,
    pub(crate) replicas: Option<Replicas>,
    credentials: Option<CredentialProvider>,
}

impl Config {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig): the URL is malformed. The
    /// message hides the password.
    pub fn new(url: &str) -> Result<Self> {
        let shown = redact::shown(url, &url::parameters());
        let (topology, key_prefix, replicas) = url::read(url, &shown)?;
        Self { key_prefix, replicas, ..Self::of(topology, shown) }.checked_prefix()
    }

    /// Creates settings with the address, database, login and TLS settings of a client for one
    /// server. Lockwright opens its own connections.
    pub fn from_client(client: &redis::Client) -> Self {
        choose_provider();
        let server = url::with_settings(client.get_connection_info().clone());
        let shown = server.addr().to_string();
        Self::of(Topology::One(server), shown)
    }

    fn of(topology: Topology, shown: String) -> Self {
        Self {
            topology,
            shown,
            key_prefix: String::new(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            for_diagnosis: false,
            replicas: None,
            credentials: None,
        }
    }

    /// Sets the prefix of each lock's key; empty by default.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Sets the time limit for a reply; 1 s by default. A request waits for at most half of the
    /// TTL, and a renewal for a fifth. A request without a reply is indeterminate, and its
    /// connection is replaced.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets the time limit for connecting, including authentication; 2 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Allows connecting to a replica, to run [`doctor`](lockwright_core::DistributedLock::doctor).
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    /// Requires that `count` replicas acknowledge each grant and renewal within `limit`.
    ///
    /// If too few do, a grant is released: the acquire fails, or the resumed ticket's hold is lost.
    /// A renewal with too few is indeterminate. A failover isn't safe even so, because a replica
    /// without the grant may take over. Grants and renewals run one after the other. Each takes a
    /// round trip to the replicas, or the whole `limit` without enough acknowledgements.
    #[must_use]
    pub fn replicas(mut self, count: u32, limit: Duration) -> Self {
        self.replicas = Some(Replicas { count, limit });
        self
    }

    /// Sets a provider of the servers' credentials, which replace the login in the URL. The login
    /// for the Sentinels stays.
    ///
    /// The server checks credentials only when a connection opens. A connection stays open after
    /// its token expires, unless the server closes it.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    pub(crate) async fn logged_in(&self, server: ConnectionInfo) -> Result<ConnectionInfo> {
        let Some(provider) = &self.credentials else { return Ok(server) };
        let Credentials { username, password } = provider.credentials().await?;
        let redis = server.redis_settings().clone().set_password(password);
        let redis = match username {
            Some(username) => redis.set_username(username),
            None => redis,
        };
        Ok(server.set_redis_settings(redis))
    }

    fn refused(&self, problem: &str) -> Result<Self> {
        Err(Error::invalid_config(problem).with_backend(self.topology.backend()))
    }

    fn checked_prefix(self) -> Result<Self> {
        if self.key_prefix.chars().any(char::is_control) || self.key_prefix.len() > 512 {
            return self.refused("the key prefix has control characters or more than 512 bytes");
        }
        Ok(self)
    }

    pub(crate) fn checked(self) -> Result<Self> {
        let this = self.checked_prefix()?;
        if this.response_timeout.is_zero() || this.connect_timeout.is_zero() {
            return this.refused("a time-out is zero, so that every request would fail");
        }
        if this.replicas.is_some_and(|replicas| replicas.count == 0 || replicas.limit.is_zero()) {
            return this.refused(
                "the number of replicas to wait for, or the time, is zero; omit the setting",
            );
        }
        Ok(this)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("key_prefix", &self.key_prefix)
            .field("response_timeout", &self.response_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}
