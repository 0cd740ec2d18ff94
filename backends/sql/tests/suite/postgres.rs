mod factory;
mod shelf;

use std::time::Duration;

use lockwright_conformance::Harm;
use lockwright_sql::Postgres as Backend;
use lockwright_sql::postgres::check_fence;
use lockwright_testbed::{Postgres as Server, Result};
use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

pub(crate) use self::factory::main;

const LABEL: Option<&str> = None;
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(8);
const BEGIN: &str = "BEGIN";
const PUT: &str = "INSERT INTO shelf (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = $2";
const GET: &str = "SELECT value FROM shelf WHERE name = $1";

fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

fn shelf_url(server: &Server) -> String {
    server.url()
}
