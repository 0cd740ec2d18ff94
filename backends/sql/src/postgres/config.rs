use lockwright_core::{Result, redact};
use sqlx::postgres::{PgConnectOptions, PgPool};

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
    pub(super) pool: Option<PgPool>,
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

    /// Creates settings from the driver's, such as `&pool.connect_options()`, for [Lockwright's own
    /// connections](crate#the-programs-pool).
    pub fn from_options(server: &PgConnectOptions) -> Self {
        tls::choose_provider();
        let server = match server.get_application_name() {
            Some(_) => server.clone(),
            None => server.clone().application_name("lockwright"),
        };
        // PgBouncer rejects connections that set this parameter.
        let server = server.extra_float_digits(None);
        let shown = server.get_host().to_owned();
        Self { shown, server, pool: None, common: Common::default() }
    }

    /// Creates settings that use the connections of the program's pool, in the mode `lease` only.
    ///
    /// Each request takes a connection from the pool and returns it after the answer. Lockwright
    /// changes no setting of a session, prepares no statement, and ends no session on the server.
    /// It closes a connection if an answer is missing or late, or if the program left a transaction
    /// open. The sessions must use the encoding UTF8. Besides the
    /// [limits](crate#the-programs-pool) of all such backends:
    ///
    /// - Waiters poll, at least every 100 ms, because the client can't listen for notifications:
    ///   see [`Profile::wake_up`](lockwright_core::Profile).
    /// - Without [`schema_name`](Self::schema_name), `connect` finds the tables by the search path
    ///   of one session, or creates them in the first schema of that path.
    pub fn from_pool(pool: &PgPool) -> Self {
        Self { pool: Some(pool.clone()), ..Self::from_options(&pool.connect_options()) }
    }
}

config::common_settings!(
    Postgresql,
    PgConnectOptions,
    "schema",
    ["postgres-session", "postgres-row"]
);
