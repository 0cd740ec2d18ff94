//! Which server, and how it is used.

use std::fmt;
use std::time::Duration;

use lockwright_core::{Error, Result, redact};
use sqlx::mysql::MySqlConnectOptions;

use super::dialect::MySql;
use crate::server::options::{self, Common};
use crate::server::{Mode, schema, tls};

/// The parameters of a URL that sqlx knows and that a user may set. It would pass over others in
/// silence.
const OF_SQLX: [&str; 9] = [
    "sslmode", "ssl-mode", "sslca", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key", "socket",
];

/// Settings of a [`Mysql`](super::Mysql).
#[derive(Clone)]
#[must_use = "nothing is connected before `connect`"]
pub struct Options {
    pub(super) server: MySqlConnectOptions,
    /// The URL without its secrets.
    shown: String,
    pub(super) common: Common,
}

impl Options {
    /// What a URL says: `mysql://[user[:password]@]host[:port]/database[?parameters]`. `mariadb://`
    /// means the same.
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `mode` | `lease` (the default), `session` or `row`: see [`Mode`] |
    /// | `table` | what the tables' names begin with, instead of `lockwright` |
    /// | `schema` | the database that they are in, if it isn't the one that is connected to |
    /// | `connections` | the largest number of server sessions, for all uses together; 8 by default, and 32 in the modes `session` and `row` |
    /// | `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`, `socket` | as for MySQL's own programs |
    ///
    /// A password as MySQL 8 keeps it (`caching_sha2_password`) goes over TLS only: the
    /// driver is built without RSA, by which it could be hidden otherwise.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig), saying what is wrong with it,
    /// without its password.
    pub fn from_url(url: &str) -> Result<Self> {
        let invalid = |error: Error| error.with_backend("mysql");
        if !["mysql://", "mariadb://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(invalid(Error::invalid_config(
                "the URL of a MySQL or MariaDB server begins with mysql://, as in \
                 mysql://user:password@host/database",
            )));
        }
        let (rest, common) = options::take(url, &OF_SQLX).map_err(invalid)?;
        tls::choose_provider();
        let server: MySqlConnectOptions = rest.parse().map_err(|cause: sqlx::Error| {
            invalid(options::invalid_url(&rest, "there is a mistake", &cause))
        })?;
        // What a session needs is set in one statement of our own.
        let server = server
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        Ok(Self { server, shown: redact::url(url), common })
    }

    /// What a hold is on the server.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.common.mode = mode;
        self
    }

    /// What the tables' names begin with; `lockwright` by default.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) unless it is made of small
    /// letters, digits and underscores.
    pub fn table(mut self, prefix: &str) -> Result<Self> {
        self.common.tables = self.common.tables.named(prefix)?;
        Ok(self)
    }

    /// The database that the tables are in. It must exist.
    ///
    /// # Errors
    /// As [`Options::table`].
    pub fn schema_name(mut self, schema: &str) -> Result<Self> {
        self.common.tables = self.common.tables.within(schema)?;
        Ok(self)
    }

    /// The time limit for the server's answer; 1.2 s by default, and 3 s in the modes `session` and
    /// `row`. A request without an answer is indeterminate: its connection is closed, and the server
    /// ends its session. In the lease mode a request takes at most half of its TTL, and a renewal a
    /// fifth. Requests that read many rows, such as listings and sweeps, may take 5 s unless this is set.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.common.answer = Some(limit);
        self
    }

    /// How long getting a connection may take; 5 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.common.connect = limit;
        self
    }

    /// Connects also to a server on which no lock can live, a replica, so that
    /// [`doctor`](lockwright_core::DistributedLock::doctor) can look at it. Makes no tables.
    pub fn for_diagnosis(mut self) -> Self {
        self.common.for_diagnosis = true;
        self
    }

    /// The statements that make the tables, for whoever may not make them at run time. Connects
    /// to nothing.
    pub fn schema(&self) -> String {
        schema::text(&MySql::new(self))
    }

    /// What errors say they come from.
    pub(super) fn backend(&self) -> &'static str {
        match self.common.mode {
            Mode::Lease => super::LEASE,
            Mode::Session => "mysql-session",
            Mode::Row => "mysql-row",
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &self.shown)
            .field("common", &self.common)
            .finish_non_exhaustive()
    }
}
