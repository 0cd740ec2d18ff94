use std::str::FromStr;
use std::time::Duration;

use lockwright_core::{CredentialProvider, Error, Result, redact};
use sqlx::{Database, Pool};

use super::session_lock::Kind;
use super::{Limits, SessionLimit, Tables};

/// Longer time limits are shortened, because servers reject more than 24 days.
const LONGEST_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How the server stores a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// A row that expires by itself. The hold survives lost connections and server restarts. Limits:
    ///
    /// - If the server's clock steps ahead, two clients may have the lock: the profile doesn't
    ///   promise [`ServerClockStep`](lockwright_core::Fault::ServerClockStep).
    /// - Fences grow, except after a loss of data **and** a step back of the server's clock.
    /// - A replica promoted without the last commits may grant a held lock.
    /// - Rows of unused names remain until a [`sweep`](lockwright_core::DistributedLock::sweep).
    #[default]
    Lease,
    /// A lock of a database session. The hold ends with the session, which several holds may share.
    Session,
    /// A locked row in an open transaction. Each hold has its own connection and ends with it.
    Row,
}

impl Mode {
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Lease => None,
            Self::Session => Some(Kind::Session),
            Self::Row => Some(Kind::Row),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Common {
    pub(crate) mode: Mode,
    pub(crate) tables: Tables,
    connections: Option<usize>,
    pub(crate) connect: Option<Duration>,
    pub(crate) answer: Option<Duration>,
    pub(crate) for_diagnosis: bool,
    pub(crate) credentials: Option<CredentialProvider>,
}

impl Common {
    pub(crate) fn limits(&self) -> Limits {
        let by_default = match self.mode {
            Mode::Lease => Duration::from_millis(1_200),
            Mode::Session | Mode::Row => Duration::from_secs(3),
        };
        let at_most = |limit: Duration| limit.min(LONGEST_LIMIT);
        Limits {
            connect: at_most(self.connect.unwrap_or(Duration::from_secs(5))),
            answer: at_most(self.answer.unwrap_or(by_default)),
            slow: at_most(self.answer.unwrap_or(Duration::from_secs(5))),
        }
    }

    pub(crate) fn sessions(&self, listens: bool) -> Result<SessionLimit> {
        if self.mode == Mode::Lease {
            let total = self.connections.unwrap_or(SessionLimit::LEASE);
            return Ok(SessionLimit::lease(total, listens));
        }
        let total = self.connections.unwrap_or(SessionLimit::HELD);
        if total < SessionLimit::LEAST_HELD {
            return Err(Error::invalid_config(format!(
                "connections must be at least {} in the modes session and row: one for requests, one \
                 for cancelling them, one that watches the holds, and one for holds",
                SessionLimit::LEAST_HELD
            )));
        }
        Ok(SessionLimit::held(total, listens, self.mode == Mode::Session))
    }

    pub(crate) fn borrowed_sessions<D: Database>(&self, pool: &Pool<D>) -> Result<SessionLimit> {
        if self.mode != Mode::Lease {
            return Err(Error::invalid_config(
                "this mode keeps connections for its holds; use the mode `lease`, or `from_options` \
                 instead of `from_pool`",
            ));
        }
        if self.credentials.is_some() {
            return Err(Error::invalid_config(
                "the program's pool has its own login; omit `credentials`, or use `from_options` \
                 instead of `from_pool`",
            ));
        }
        let size = pool.options().get_max_connections().try_into().unwrap_or(usize::MAX);
        Ok(SessionLimit::borrowed(self.connections.unwrap_or(SessionLimit::LEASE).min(size)))
    }
}

pub(crate) fn parse<T: FromStr<Err = sqlx::Error>>(
    url: &str,
    schemes: [&str; 2],
    wrong_scheme: &str,
    drivers: &str,
) -> Result<(T, Common)> {
    let is_of = |scheme: &str| url.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://"));
    if !schemes.into_iter().any(is_of) {
        return Err(Error::invalid_config(wrong_scheme));
    }
    let (rest, common) =
        take(url, drivers).map_err(|error| match redact::hidden_password(url) {
            Some(what) => Error::invalid_config(format!("the URL {:?}: {what}", redact::url(url))),
            None => error,
        })?;
    let server = rest.parse::<T>().map_err(|cause| invalid_url(&rest, &cause))?;
    Ok((server, common))
}

/// Splits Lockwright's parameters off the URL. Errors omit the values of unknown parameters, which
/// may be secret.
fn take(url: &str, drivers: &str) -> Result<(String, Common)> {
    let mut common = Common::default();
    let Some((server, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), common));
    };
    let mut rest = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "mode" => {
                common.mode = match value {
                    "lease" => Mode::Lease,
                    "session" => Mode::Session,
                    "row" => Mode::Row,
                    _ => {
                        return Err(Error::invalid_config(format!(
                            "there is no mode {value:?}; the modes are lease, session and row"
                        )));
                    }
                }
            }
            "table" => common.tables = common.tables.named(value)?,
            "schema" => common.tables = common.tables.within(value)?,
            "connections" => {
                let enough = |count: &usize| (SessionLimit::LEAST..=100_000).contains(count);
                common.connections = Some(value.parse().ok().filter(enough).ok_or_else(|| {
                    Error::invalid_config(
                        "connections must be a number of at least 2: one for requests and one for \
                             cancelling them",
                    )
                })?);
            }
            _ if drivers.split(", ").any(|known| is_named(name, known)) => rest.push(parameter),
            _ => {
                return Err(Error::invalid_config(format!(
                    "the URL has an unknown parameter {name:?}; Lockwright's are mode, table, \
                     schema and connections, and the driver's {drivers}"
                )));
            }
        }
    }
    let url =
        if rest.is_empty() { server.to_owned() } else { format!("{server}?{}", rest.join("&")) };
    Ok((url, common))
}

/// Returns whether the name is `known`, or begins with it if `known` ends with `[`.
fn is_named(name: &str, known: &str) -> bool {
    name == known || (known.ends_with('[') && name.starts_with(known))
}

fn invalid_url(url: &str, cause: &sqlx::Error) -> Error {
    // The cause may quote the URL, with its password.
    let cause = cause.to_string();
    let shown = redact::url(url);
    if url.contains(&cause) || cause.contains(url) || redact::hidden_password(url).is_some() {
        return Error::invalid_config(format!("there is a mistake in {shown:?}"));
    }
    Error::invalid_config(format!("there is a mistake in {shown:?}: {cause}"))
}

macro_rules! common_settings {
    ($dialect:ident, $options:ty, $schema:literal, [$session:literal, $row:literal]) => {
        impl Config {
            /// Sets the mode.
            pub fn mode(mut self, mode: $crate::server::Mode) -> Self {
                self.common.mode = mode;
                self
            }

            /// Sets the prefix of the tables' names; `lockwright` by default.
            ///
            /// # Errors
            /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) unless the prefix has
            /// only lower-case letters, digits and underscores.
            pub fn table(mut self, prefix: &str) -> Result<Self> {
                self.common.tables = self.common.tables.named(prefix)?;
                Ok(self)
            }

            #[doc = concat!("Sets the tables' ", $schema, ". It must exist.")]
            ///
            /// # Errors
            /// As [`Config::table`].
            pub fn schema_name(mut self, schema: &str) -> Result<Self> {
                self.common.tables = self.common.tables.within(schema)?;
                Ok(self)
            }

            /// Sets the time limit for the server's answer; 1.2 s by default, 3 s in the modes
            /// `session` and `row`, and 5 s for listings and sweeps. In the lease mode, the limit
            /// is at most half of the request's TTL, for a renewal at most a fifth.
            pub fn response_timeout(mut self, limit: std::time::Duration) -> Self {
                self.common.answer = Some(limit);
                self
            }

            /// Sets the time limit for getting a connection; 5 s by default.
            pub fn connect_timeout(mut self, limit: std::time::Duration) -> Self {
                self.common.connect = Some(limit);
                self
            }

            /// Sets a provider of credentials, which replace the login in the URL.
            ///
            /// The server checks them only when a connection opens. A connection stays open after
            /// its token expires, unless the server closes it.
            pub fn credentials(mut self, provider: lockwright_core::CredentialProvider) -> Self {
                self.common.credentials = Some(provider);
                self
            }

            /// Makes `connect` create no tables, and accept a server that can't lock, such as a
            /// replica, for [`doctor`](lockwright_core::DistributedLock::doctor).
            pub fn for_diagnosis(mut self) -> Self {
                self.common.for_diagnosis = true;
                self
            }

            /// Returns the SQL that creates the tables.
            pub fn schema(&self) -> String {
                $crate::server::schema::text(&$dialect::new(self))
            }

            /// Returns the profile of a server that is reached without a pooler.
            pub fn profile(&self) -> lockwright_core::Profile {
                super::session_lock_profile(self.common.mode)
                    .unwrap_or_else(|| self.lease_profile())
            }

            pub(super) fn backend(&self) -> &'static str {
                match self.common.mode {
                    $crate::server::Mode::Lease => super::LEASE,
                    $crate::server::Mode::Session => $session,
                    $crate::server::Mode::Row => $row,
                }
            }
        }

        impl $dialect {
            pub(super) async fn options(&self) -> sqlx::Result<$options> {
                let Some(provider) = &self.credentials else { return Ok(self.server.clone()) };
                let login = provider.credentials().await;
                let login = login.map_err(|error| sqlx::Error::AnyDriverError(error.into()))?;
                let server = self.server.clone().password(&login.password);
                Ok(match &login.username {
                    Some(username) => server.username(username),
                    None => server,
                })
            }
        }

        impl std::fmt::Debug for Config {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct("Config")
                    .field("url", &self.shown)
                    .field("common", &self.common)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use common_settings;
