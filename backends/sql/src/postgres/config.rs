use std::fmt;
use std::time::Duration;

use lockwright_core::{Error, Result, redact};
use sqlx::postgres::PgConnectOptions;

use super::dialect::Postgresql;
use crate::server::config::{self, Common};
use crate::server::{Mode, schema, tls};

/// The URL parameters of sqlx, which only logs a warning for others.
const OF_SQLX: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "options[",
];

/// Settings of a [`Postgres`](super::Postgres).
#[derive(Clone)]
#[must_use = "nothing is connected before `connect`"]
pub struct Config {
    pub(super) server: PgConnectOptions,
    shown: String,
    pub(super) common: Common,
}

impl Config {
    /// Parses a URL: `postgres://[user[:password]@]host[:port][/database][?parameters]`.
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `mode` | `lease` (the default), `session` or `row`: see [`Mode`] |
    /// | `table` | the prefix of the tables' names, instead of `lockwright` |
    /// | `schema` | the tables' schema; by default the first of the user's search path |
    /// | `connections` | the most server sessions in total; 8 by default, 32 in the modes `session` and `row` |
    /// | `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `host`, `hostaddr`, `port`, `dbname`, `user`, `password`, `application_name`, `options` | as for PostgreSQL's own programs |
    ///
    /// `PGHOST`, `PGPASSWORD` and so on, and `~/.pgpass`, are used for omitted parts.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) if the URL is invalid. The
    /// error omits its password.
    pub fn new(url: &str) -> Result<Self> {
        let invalid = |error: Error| error.with_backend("postgres");
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(invalid(Error::invalid_config(
                "the URL of a PostgreSQL server begins with postgres://, as in \
                 postgres://user:password@host/database",
            )));
        }
        let (rest, common) = config::take(url, &OF_SQLX).map_err(invalid)?;
        tls::choose_provider();
        let server: PgConnectOptions = rest.parse().map_err(|cause: sqlx::Error| {
            invalid(config::invalid_url(&rest, "there is a mistake", &cause))
        })?;
        let server = match server.get_application_name() {
            Some(_) => server,
            None => server.application_name("lockwright"),
        };
        // PgBouncer rejects connections that set this parameter.
        let server = server.extra_float_digits(None);
        Ok(Self { server, shown: redact::url(url), common })
    }

    /// Sets the mode.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.common.mode = mode;
        self
    }

    /// Sets the prefix of the tables' names; `lockwright` by default.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) unless it has only lower-case
    /// letters, digits and underscores.
    pub fn table(mut self, prefix: &str) -> Result<Self> {
        self.common.tables = self.common.tables.named(prefix)?;
        Ok(self)
    }

    /// Sets the tables' schema. It must exist.
    ///
    /// # Errors
    /// As [`Config::table`].
    pub fn schema_name(mut self, schema: &str) -> Result<Self> {
        self.common.tables = self.common.tables.within(schema)?;
        Ok(self)
    }

    /// Sets the time limit for the server's answer; 1.2 s by default, 3 s in the modes `session`
    /// and `row`. In the lease mode, a request takes at most half of its TTL, a renewal a fifth.
    /// Unless this method is called, listings and sweeps may take 5 s.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.common.answer = Some(limit);
        self
    }

    /// Sets the time limit for getting a connection; 5 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.common.connect = limit;
        self
    }

    /// Makes `connect` accept a server that can't lock, such as a replica, for
    /// [`doctor`](lockwright_core::DistributedLock::doctor). Creates no tables.
    pub fn for_diagnosis(mut self) -> Self {
        self.common.for_diagnosis = true;
        self
    }

    /// Returns the SQL that creates the tables.
    pub fn schema(&self) -> String {
        schema::text(&Postgresql::new(self))
    }

    pub(super) fn backend(&self) -> &'static str {
        match self.common.mode {
            Mode::Lease => super::LEASE,
            Mode::Session => "postgres-session",
            Mode::Row => "postgres-row",
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("url", &self.shown)
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}
