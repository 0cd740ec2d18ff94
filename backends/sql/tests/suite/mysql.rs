mod factory;
mod shelf;

use std::time::Duration;

use lockwright_conformance::Harm;
use lockwright_sql::Mysql as Backend;
use lockwright_sql::mysql::check_fence;
use lockwright_testbed::{MariaDb as Server, Result};
use sqlx::mysql::{MySqlPool as Pool, MySqlPoolOptions as PoolOptions};

pub(crate) use self::factory::main;

const LABEL: Option<&str> = None;
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(5);
const BEGIN: &str = "BEGIN";
const PUT: &str = "REPLACE INTO shelf (name, value) VALUES (?, ?)";
const GET: &str = "SELECT value FROM shelf WHERE name = ?";

fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

fn shelf_url(server: &Server) -> String {
    server.url()
}
