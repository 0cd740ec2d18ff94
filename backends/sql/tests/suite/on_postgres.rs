//! What the suites on PostgreSQL share.

use std::time::Duration;

pub(super) use lockwright_sql::postgres::check_fence;
use lockwright_testbed::{Postgres as Server, Result};
pub(super) use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

pub(super) const HELD_TTL: Duration = Duration::from_secs(8);
pub(super) const BEGIN: &str = "BEGIN";
pub(super) const PUT: &str = "INSERT INTO shelf (name, value) VALUES ($1, $2) \
                              ON CONFLICT (name) DO UPDATE SET value = $2";
pub(super) const GET: &str = "SELECT value FROM shelf WHERE name = $1";

pub(super) fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

pub(super) fn shelf_url(server: &Server) -> String {
    server.url()
}
