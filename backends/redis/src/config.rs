//! How to reach a Redis: URLs, and what they don't say.

use std::fmt;
use std::time::Duration;

use lockwright_core::{Error, Result, redact};
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::PROFILE_NAME;

/// How to reach a Redis.
///
/// A URL is `redis://[user][:password]@host[:port][/database][?prefix=PREFIX]`, or
/// `redis+unix:///path/to/socket[?db=0]`. Special characters of a password are percent-encoded: `/`
/// is `%2F`, `#` is `%23`. What stands in it may also be set here.
///
/// ```no_run
/// # async fn example() -> lockwright_core::Result<()> {
/// use std::time::Duration;
///
/// let redis = lockwright_redis::Config::new("redis://127.0.0.1/")?
///     .key_prefix("shop:")
///     .response_timeout(Duration::from_millis(250))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) server: ConnectionInfo,
    /// The URL without its secrets.
    pub(crate) shown: String,
    pub(crate) key_prefix: String,
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) for_diagnosis: bool,
}

impl Config {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) says what is wrong with it,
    /// without its password.
    pub fn new(url: &str) -> Result<Self> {
        let shown = redact::url(url);
        let invalid = |problem: &str| {
            Error::invalid_config(format!(
                "{problem} in {shown:?}; a URL is redis://[user][:password]@host[:port][/database]"
            ))
            .with_backend(PROFILE_NAME)
        };
        if url.starts_with("rediss:") {
            return Err(invalid("TLS isn't built in: there is no support for rediss"));
        }
        if let Some(problem) = malformed(url.trim()) {
            return Err(invalid(&problem));
        }
        let parsed =
            redis::parse_redis_url(url.trim()).ok_or_else(|| invalid("there is no Redis URL"))?;
        let mut key_prefix = String::new();
        let is_socket = parsed.scheme().contains("unix");
        for (key, value) in parsed.query_pairs() {
            match &*key {
                "prefix" => key_prefix = value.into_owned(),
                "db" | "user" | "pass" if is_socket => {}
                other => {
                    // The name alone: the value may be a secret.
                    return Err(invalid(&format!("there is an unknown parameter {other:?}")));
                }
            }
        }
        let server = parsed
            .into_connection_info()
            .map_err(|cause| invalid(wrong_part(&cause.to_string())))?;
        let config = Self {
            server: with_our_settings(server),
            shown,
            key_prefix: String::new(),
            response_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(2),
            for_diagnosis: false,
        };
        config.checked_prefix(key_prefix)
    }

    /// What stands before each lock's name in its key. None by default: the key is the name, which
    /// is what other lock libraries use.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// How long the server may take to answer; 1 s by default. Afterwards the request is
    /// indeterminate and the connection is replaced. Keep it well under a third of the TTL, so
    /// that a hold survives a lost answer.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// How long connecting may take, with the password and all; 2 s by default.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Connects also to a server on which no lock can live, a replica, so that
    /// [`doctor`](lockwright_core::DistributedLock::doctor) can look at it.
    #[must_use]
    pub fn for_diagnosis(mut self) -> Self {
        self.for_diagnosis = true;
        self
    }

    fn checked_prefix(mut self, prefix: String) -> Result<Self> {
        if prefix.chars().any(char::is_control) || prefix.len() > 512 {
            return Err(Error::invalid_config(
                "the key prefix has control characters or more than 512 bytes",
            )
            .with_backend(PROFILE_NAME));
        }
        self.key_prefix = prefix;
        Ok(self)
    }

    /// Checks what was set since the URL was read.
    pub(crate) fn checked(mut self) -> Result<Self> {
        let prefix = std::mem::take(&mut self.key_prefix);
        let this = self.checked_prefix(prefix)?;
        if this.response_timeout.is_zero() || this.connect_timeout.is_zero() {
            return Err(Error::invalid_config("a time-out of zero lets nothing through")
                .with_backend(PROFILE_NAME));
        }
        Ok(this)
    }
}

/// What is wrong with a URL that the parser would only refuse as a whole, or read otherwise than it
/// was meant: a password with a special character ends at that character.
fn malformed(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://").filter(|(scheme, _)| *scheme == "redis")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    // A prefix may have one too. The password isn't quoted: nobody knows where it ends.
    let prefix = after.find("?prefix=").unwrap_or(after.len());
    if after[..prefix].contains('@') {
        return Some(
            "a special character in the password isn't percent-encoded (/ is %2F, # is %23, ? is \
             %3F)"
                .to_owned(),
        );
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.rfind(']') {
        Some(end) => (host, host[end + 1..].strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    match port {
        _ if name.is_empty() => Some("the host is missing".to_owned()),
        Some(port) if !port.is_empty() && port.parse::<u16>().is_err() => {
            Some(format!("the port {port:?} is not a number up to 65535"))
        }
        _ => None,
    }
}

/// Which part of a URL the client library means by its message.
fn wrong_part(message: &str) -> &'static str {
    const PARTS: [(&str, &str); 5] = [
        ("database", "the database is not a number"),
        ("wildcard", "the host stands for all addresses, so it is none to connect to"),
        ("hostname", "the host is missing"),
        ("UTF-8", "the user name or password is not UTF-8 once its percent-encoding is undone"),
        ("path", "the path of the socket is missing"),
    ];
    let found = PARTS.iter().find(|(word, _)| message.contains(word));
    found.map_or("there is a mistake", |(_, problem)| problem)
}

/// RESP3, so that wake-ups arrive on the connection that asks; no delay for small packets; and a
/// dead peer is noticed by the kernel too.
fn with_our_settings(server: ConnectionInfo) -> ConnectionInfo {
    let tcp = server.tcp_settings().clone().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(Duration::from_secs(10));
    let redis = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    server.set_tcp_settings(tcp).set_redis_settings(redis)
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
