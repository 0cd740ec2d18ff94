//! What the suites on MariaDB and MySQL share.

use std::time::Duration;

use lockwright_conformance::Harm;
pub(super) use lockwright_sql::mysql::check_fence;
use lockwright_testbed::{MariaDb as Server, Result};
pub(super) use sqlx::mysql::{MySqlPool as Pool, MySqlPoolOptions as PoolOptions};

pub(super) const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut];
pub(super) const HELD_TTL: Duration = Duration::from_secs(5);
pub(super) const BEGIN: &str = "BEGIN";
pub(super) const PUT: &str = "REPLACE INTO shelf (name, value) VALUES (?, ?)";
pub(super) const GET: &str = "SELECT value FROM shelf WHERE name = ?";

pub(super) fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

pub(super) fn shelf_url(server: &Server) -> String {
    server.url()
}
