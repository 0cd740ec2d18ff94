use lockwright_core::{Result, redact};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool};

use super::dialect::MySql;
use crate::server::config::{self, Common};
use crate::server::tls;

/// The URL parameters that sqlx supports. It ignores any other.
const OF_SQLX: &str =
    "sslmode, ssl-mode, sslca, ssl-ca, sslcert, ssl-cert, sslkey, ssl-key, socket";

/// Settings of a [`Mysql`](super::Mysql).
#[derive(Clone)]
#[must_use = "nothing is connected before `connect`"]
pub struct Config {
    pub(super) server: MySqlConnectOptions,
    pub(super) pool: Option<MySqlPool>,
    shown: String,
    pub(super) common: Common,
}

impl Config {
    /// Parses a URL: `mysql://[user[:password]@]host[:port]/database[?parameters]`, or
    /// `mariadb://`.
    ///
    /// | parameter | meaning |
    /// |---|---|
    /// | `mode` | `lease` (the default), `session` or `row`: see [`Mode`](super::Mode) |
    /// | `table` | the prefix of the tables' names, instead of `lockwright` |
    /// | `schema` | the tables' database, by default the connection's |
    /// | `connections` | the most server sessions in total; 8 by default, 32 in the modes `session` and `row` |
    /// | `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`, `socket` | as for MySQL's own programs |
    ///
    /// MySQL 8's default passwords (`caching_sha2_password`) need TLS, because the driver is built
    /// without RSA.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) if the URL is invalid. The
    /// error omits the password.
    pub fn new(url: &str) -> Result<Self> {
        let wrong_scheme = "the URL of a MySQL or MariaDB server begins with mysql://, as in \
                            mysql://user:password@host/database";
        let (server, common): (MySqlConnectOptions, _) =
            config::parse(url, ["mysql", "mariadb"], wrong_scheme, OF_SQLX)
                .map_err(|error| error.with_backend("mysql"))?;
        Ok(Self { shown: redact::url(url), common, ..Self::from_options(&server) })
    }

    /// Creates settings from the driver's, such as `&pool.connect_options()`, for [Lockwright's own
    /// connections](crate#the-programs-pool).
    pub fn from_options(server: &MySqlConnectOptions) -> Self {
        tls::choose_provider();
        let server = server
            .clone()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        let shown = server.get_host().to_owned();
        Self { shown, server, pool: None, common: Common::default() }
    }

    /// Creates settings that use the connections of the program's pool, in the mode `lease` only.
    ///
    /// Each request takes a connection from the pool and returns it after the answer. It sets
    /// variables of the session, and restores them at its end, except for user variables named
    /// `@lockwright_…`. Lockwright prepares no statement. It closes a connection if a request fails
    /// or is dropped, or if the program left a transaction open, as any query does with
    /// `autocommit = 0`. Besides the [limits](crate#the-programs-pool) of all such backends:
    ///
    /// - The pool's options must have a database. It contains the tables, unless
    ///   [`schema_name`](Self::schema_name) names another.
    /// - A grant by a session with `sql_log_bin = 0` isn't replicated.
    pub fn from_pool(pool: &MySqlPool) -> Self {
        Self { pool: Some(pool.clone()), ..Self::from_options(&pool.connect_options()) }
    }
}

config::common_settings!(MySql, MySqlConnectOptions, "database", ["mysql-session", "mysql-row"]);
