mod factory;
mod programs_pool;
mod shelf;

use std::time::Duration;

use lockwright_conformance::Harm;
use lockwright_sql::Postgres as OfServer;
use lockwright_sql::postgres::{Config, check_fence};
use lockwright_testbed::{Postgres as Server, Result};
use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

pub(crate) use self::factory::main;
use self::programs_pool::Backend;

const LABEL: Option<&str> = Some("postgres-lease with a program's pool");
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(8);
const BEGIN: &str = "BEGIN";
const PUT: &str = "INSERT INTO shelf (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = $2";
const GET: &str = "SELECT value FROM shelf WHERE name = $1";

const SETTINGS: &str = "SET default_transaction_isolation = 'serializable'";

fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

fn shelf_url(server: &Server) -> String {
    server.url()
}
