use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockwright_core::{
    CredentialProvider, DistributedLock, Error, Fault, Fencing, Locks, Order, PrefixOptions,
    Profile, Result, Scope, WakeUp, duration, redact,
};
use serde::{Deserialize, Serialize};

use crate::connect::{Purpose, open_for, profile_for, profiles};

/// The configuration of a client, for serde. An unknown key is an error. A time is `"30s"`,
/// `"500ms"`, or a number of seconds.
///
/// ```
/// let config: lockwright::Config = toml::from_str(
///     r#"
///     url = "sqlite:/var/lib/shop/locks.db"
///     ttl = "10s"
///     wait = "2s"
///     namespace = "shop/"
///     require = ["strict_fencing"]
///     "#,
/// )
/// .unwrap();
/// assert_eq!(config.ttl, Some(std::time::Duration::from_secs(10)));
/// ```
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The URL, as in [`connect`](crate::connect).
    pub url: String,
    /// A file with the password for each server's URL without one. Newlines at its end are ignored.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The name of an environment variable with the password, instead of `password_file`.
    #[serde(default)]
    pub password_env: Option<String>,
    /// A provider of the servers' credentials, which replace the login in the URL.
    #[serde(skip)]
    pub credentials: Option<CredentialProvider>,
    /// The default TTL.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub ttl: Option<Duration>,
    /// The default maximum wait; no limit if not set.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub wait: Option<Duration>,
    /// A prefix of all lock names, with its separator: `shop/`.
    #[serde(default)]
    pub namespace: String,
    /// The client's name for operators.
    #[serde(default)]
    pub label: Option<String>,
    /// Enables [`Builder::sweep`](crate::Builder::sweep) with this idle time.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub sweep: Option<Duration>,
    /// Sets [`Builder::local_turns`](crate::Builder::local_turns).
    #[serde(default)]
    pub local_turns: Option<u32>,
    /// Enables [`Builder::keep_warm`](crate::Builder::keep_warm) for this time.
    #[serde(default, deserialize_with = "duration::deserialize")]
    pub keep_warm: Option<Duration>,
    /// Other defaults for names with a prefix: see [`Builder::prefix`](crate::Builder::prefix).
    #[serde(default)]
    pub prefix: BTreeMap<String, PrefixOptions>,
    /// Properties that the backend must have.
    #[serde(default)]
    pub require: Vec<Requirement>,
}

impl Config {
    /// Creates a configuration with defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password_file: None,
            password_env: None,
            credentials: None,
            ttl: None,
            wait: None,
            namespace: String::new(),
            label: None,
            sweep: None,
            local_turns: None,
            keep_warm: None,
            prefix: BTreeMap::new(),
            require: Vec::new(),
        }
    }

    /// Connects a client.
    ///
    /// # Errors
    /// As [`connect`](crate::connect). Also [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for
    /// a setting out of range, or an unmet requirement.
    ///
    /// # Cancel safety
    /// As [`connect`](crate::connect).
    pub async fn connect(&self) -> Result<Locks> {
        let backend = self.open(Purpose::Locking).await?;
        for requirement in &self.require {
            requirement.check(backend.profile())?;
        }
        self.client_on(backend)
    }

    /// Connects with [`open_for_diagnosis`](crate::backend::open_for_diagnosis), without checking
    /// requirements.
    ///
    /// # Errors
    /// As [`connect`](Config::connect), except for problems that [`Locks::doctor`] reports.
    ///
    /// # Cancel safety
    /// As [`connect`](Config::connect).
    pub async fn connect_for_diagnosis(&self) -> Result<Locks> {
        self.client_on(self.open(Purpose::Diagnosis).await?)
    }

    /// Returns the default options of requests for `name`, given without the namespace.
    pub fn options_of(&self, name: &str) -> PrefixOptions {
        let own = PrefixOptions::find(&self.prefix, name);
        PrefixOptions {
            ttl: own.ttl.or(self.ttl),
            wait: own.wait.or(self.wait),
            keep_warm: own.keep_warm.or(self.keep_warm),
        }
    }

    /// Returns the problems that can be found without connecting, each with its key. A server may
    /// lack more, and may have narrower limits.
    pub fn problems(&self) -> Vec<(&'static str, Error)> {
        let url = match self.full_url() {
            Ok(url) => url,
            Err(error) => {
                let key =
                    if self.password_file.is_some() { "password_file" } else { "password_env" };
                return vec![(key, error)];
            }
        };
        let profile = match profile_for(&url) {
            Ok(profile) => profile,
            Err(error) => return vec![("url", error)],
        };
        let unmet = self.require.iter().filter_map(|it| it.check(&profile).err());
        let mut problems: Vec<_> = unmet.map(|error| ("require", error)).collect();
        let prefixes = self.prefix.values().filter_map(|prefix| Some(("prefix", prefix.ttl?)));
        for (key, ttl) in self.ttl.map(|ttl| ("ttl", ttl)).into_iter().chain(prefixes) {
            if let Err(error) = profile.check_ttl("a TTL", ttl) {
                problems.push((key, error));
            }
        }
        let is_warm = |prefix: &PrefixOptions| prefix.keep_warm.is_some();
        for (key, is_set) in
            [("keep_warm", self.keep_warm.is_some()), ("prefix", self.prefix.values().any(is_warm))]
        {
            if is_set && !profile.recalls {
                problems.push((key, Error::unsupported("keeping a lock warm", &profile)));
            }
        }
        problems
    }

    async fn open(&self, purpose: Purpose) -> Result<Arc<dyn DistributedLock>> {
        open_for(&self.full_url()?, purpose, self.credentials.clone()).await
    }

    fn client_on(&self, backend: Arc<dyn DistributedLock>) -> Result<Locks> {
        let mut builder = Locks::builder(backend).wait(self.wait).namespace(&self.namespace);
        if let Some(ttl) = self.ttl {
            builder = builder.ttl(ttl);
        }
        if let Some(label) = &self.label {
            builder = builder.label(label);
        }
        if let Some(idle) = self.sweep {
            builder = builder.sweep(idle);
        }
        if let Some(turns) = self.local_turns {
            builder = builder.local_turns(turns);
        }
        if let Some(time) = self.keep_warm {
            builder = builder.keep_warm(time);
        }
        for (prefix, options) in &self.prefix {
            builder = builder.prefix(prefix, *options);
        }
        builder.build()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &redact::url(&self.url))
            .field("password_file", &self.password_file)
            .field("password_env", &self.password_env)
            .field("credentials", &self.credentials)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("namespace", &self.namespace)
            .field("label", &self.label)
            .field("sweep", &self.sweep)
            .field("local_turns", &self.local_turns)
            .field("keep_warm", &self.keep_warm)
            .field("prefix", &self.prefix)
            .field("require", &self.require)
            .finish()
    }
}

/// A property that the backend must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Requirement {
    /// Fences that are at least [`Fencing::Clocked`].
    Fencing,
    /// Fences that are [`Fencing::Strict`].
    StrictFencing,
    /// Waiters are granted a lock in the order of arrival.
    Fifo,
    /// The server notifies waiters of a release.
    Push,
    /// A lock excludes other processes on the same machine.
    Machine,
    /// A lock excludes processes on all machines.
    Network,
    /// Read locks.
    Shared,
    /// Semaphores.
    Permits,
    /// Holds can be transferred.
    Tickets,
    /// Operators can break holds.
    Breaking,
    /// Exclusion survives a client's crash.
    ClientCrash,
    /// Exclusion survives a client's partition.
    Partition,
    /// Exclusion survives a restart of the server.
    ServerRestart,
    /// Exclusion survives a loss of the server's data.
    ServerDataLoss,
    /// Exclusion survives a failover.
    Failover,
    /// Exclusion survives the loss of a minority of servers.
    MinorityLoss,
    /// Exclusion survives a step of the server's wall clock.
    ServerClockStep,
}

impl Requirement {
    /// Returns whether the profile has this property.
    pub fn is_met_by(self, profile: &Profile) -> bool {
        match self {
            Self::Fencing => profile.fencing >= Fencing::Clocked,
            Self::StrictFencing => profile.fencing >= Fencing::Strict,
            Self::Fifo => profile.order == Order::Fifo,
            Self::Push => profile.wake_up == WakeUp::Push,
            Self::Machine => profile.scope >= Scope::Machine,
            Self::Network => profile.scope >= Scope::Network,
            Self::Shared => profile.modes.shared,
            Self::Permits => profile.modes.permits,
            Self::Tickets => profile.tickets,
            Self::Breaking => profile.breakable,
            Self::ClientCrash => profile.survives.contains(Fault::ClientCrash),
            Self::Partition => profile.survives.contains(Fault::Partition),
            Self::ServerRestart => profile.survives.contains(Fault::ServerRestart),
            Self::ServerDataLoss => profile.survives.contains(Fault::ServerDataLoss),
            Self::Failover => profile.survives.contains(Fault::Failover),
            Self::MinorityLoss => profile.survives.contains(Fault::MinorityLoss),
            Self::ServerClockStep => profile.survives.contains(Fault::ServerClockStep),
        }
    }

    fn check(self, profile: &Profile) -> Result<()> {
        if self.is_met_by(profile) {
            return Ok(());
        }
        let others: Vec<&str> = profiles()
            .iter()
            .filter(|other| other.backend != profile.backend && self.is_met_by(other))
            .map(|other| other.backend)
            .collect();
        let what_would = if others.is_empty() {
            "no other backend of this build can".to_owned()
        } else {
            format!("of the backends of this build, {} can", others.join(" and "))
        };
        Err(Error::invalid_config(format!(
            "require = [\"{self}\"]: this backend can't promise it as configured; {what_would}"
        ))
        .with_backend(profile.backend))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
