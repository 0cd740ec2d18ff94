mod factory;
mod shelf;

use std::time::Duration;

use lockwright_conformance::{Harm, problem};
use lockwright_core::DistributedLock;
use lockwright_sql::Postgres;
use lockwright_sql::postgres::{Config, check_fence};
use lockwright_testbed::{Postgres as Server, Result};
use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

pub(crate) use self::factory::main;

const LABEL: Option<&str> = Some("postgres-lease with a program's pool");
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(8);
const BEGIN: &str = "BEGIN";
const PUT: &str = "INSERT INTO shelf (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = $2";
const GET: &str = "SELECT value FROM shelf WHERE name = $1";

#[derive(Debug)]
struct Backend(Postgres);

impl Backend {
    async fn connect(url: &str) -> lockwright_core::Result<Self> {
        // Lockwright's requests must not depend on the isolation level that the program has set.
        let pool = PoolOptions::new().max_connections(4).after_connect(|connection, _| {
            let set = "SET default_transaction_isolation = 'serializable'";
            Box::pin(async move { sqlx::raw_sql(set).execute(connection).await.map(drop) })
        });
        let pool = pool.connect(url).await.map_err(problem)?;
        Ok(Self(Config::from_pool(&pool).connect().await?))
    }
}

impl DistributedLock for Backend {
    lockwright_core::delegate!(|this| this.0);
}

fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

fn shelf_url(server: &Server) -> String {
    server.url()
}
