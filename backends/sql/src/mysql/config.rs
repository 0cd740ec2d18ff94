use lockwright_core::{Result, redact};
use sqlx::mysql::MySqlConnectOptions;

use super::dialect::MySql;
use crate::server::config::{self, Common};
use crate::server::tls;

/// The URL parameters that sqlx supports. It silently ignores any other.
const OF_SQLX: &str =
    "sslmode, ssl-mode, sslca, ssl-ca, sslcert, ssl-cert, sslkey, ssl-key, socket";

/// Settings of a [`Mysql`](super::Mysql).
#[derive(Clone)]
#[must_use = "nothing is connected before `connect`"]
pub struct Config {
    pub(super) server: MySqlConnectOptions,
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

    /// Creates settings from the driver's, such as `&pool.connect_options()`.
    ///
    /// Lockwright opens its own connections. It doesn't use the pool's, because it changes settings
    /// of its sessions, and ends a session whose answer is late. The pool's callbacks, such as
    /// `after_connect`, don't apply.
    pub fn from_options(server: &MySqlConnectOptions) -> Self {
        tls::choose_provider();
        let server = server
            .clone()
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        Self { shown: server.get_host().to_owned(), server, common: Common::default() }
    }
}

config::common_settings!(MySql, MySqlConnectOptions, "database", ["mysql-session", "mysql-row"]);
