use lockwright_core::{Result, redact};
use sqlx::postgres::PgConnectOptions;

use super::dialect::Postgresql;
use crate::server::config::{self, Common};
use crate::server::tls;

/// The URL parameters that sqlx supports. For others, it only logs a warning.
const OF_SQLX: &str = "sslmode, ssl-mode, sslrootcert, ssl-root-cert, ssl-ca, sslcert, ssl-cert, \
                       sslkey, ssl-key, host, hostaddr, port, dbname, user, password, \
                       application_name, options, options[";

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
    /// | `mode` | `lease` (the default), `session` or `row`: see [`Mode`](super::Mode) |
    /// | `table` | the prefix of the tables' names, instead of `lockwright` |
    /// | `schema` | the tables' schema; by default the first of the user's search path |
    /// | `connections` | the most server sessions in total; 8 by default, 32 in the modes `session` and `row` |
    /// | `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `host`, `hostaddr`, `port`, `dbname`, `user`, `password`, `application_name`, `options` | as for PostgreSQL's own programs |
    ///
    /// Omitted parts come from `PGHOST`, `PGPASSWORD` and so on, or `~/.pgpass`.
    ///
    /// # Errors
    /// [`InvalidConfig`](lockwright_core::ErrorKind::InvalidConfig) if the URL is invalid. The
    /// error omits the password.
    pub fn new(url: &str) -> Result<Self> {
        let wrong_scheme = "the URL of a PostgreSQL server begins with postgres://, as in \
                            postgres://user:password@host/database";
        let (server, common): (PgConnectOptions, _) =
            config::parse(url, ["postgres", "postgresql"], wrong_scheme, OF_SQLX)
                .map_err(|error| error.with_backend("postgres"))?;
        Ok(Self { shown: redact::url(url), common, ..Self::from_options(&server) })
    }

    /// Creates settings from the driver's, such as `&pool.connect_options()`.
    ///
    /// Lockwright opens its own connections. It doesn't use the pool's, because it sets time limits
    /// in its sessions, and ends a session whose answer is late. The pool's callbacks, such as
    /// `after_connect`, don't apply.
    pub fn from_options(server: &PgConnectOptions) -> Self {
        tls::choose_provider();
        let server = match server.get_application_name() {
            Some(_) => server.clone(),
            None => server.clone().application_name("lockwright"),
        };
        // PgBouncer rejects connections that set this parameter.
        let server = server.extra_float_digits(None);
        Self { shown: server.get_host().to_owned(), server, common: Common::default() }
    }
}

config::common_settings!(
    Postgresql,
    PgConnectOptions,
    "schema",
    ["postgres-session", "postgres-row"]
);
