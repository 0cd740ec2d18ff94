mod factory;
mod programs_pool;
mod shelf;

use std::time::Duration;

use lockwright_conformance::Harm;
use lockwright_sql::Mysql as OfServer;
use lockwright_sql::mysql::{Config, check_fence};
use lockwright_testbed::{MariaDb as Server, Result};
use sqlx::mysql::{MySqlPool as Pool, MySqlPoolOptions as PoolOptions};

pub(crate) use self::factory::main;
use self::programs_pool::Backend;

const LABEL: Option<&str> = Some("mysql-lease with a program's pool");
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Restart, Harm::Forget, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(5);
const SETTINGS: &str = "SET NAMES latin1, time_zone = '+05:30', sql_mode = 'ANSI_QUOTES', \
                        autocommit = 0, completion_type = 'CHAIN', sql_select_limit = 1, \
                        sql_safe_updates = 1; \
                        SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY";
const BEGIN: &str = "BEGIN";
const PUT: &str = "REPLACE INTO shelf (name, value) VALUES (?, ?)";
const GET: &str = "SELECT value FROM shelf WHERE name = ?";

fn start(connections: &str) -> Result<Server> {
    Server::options().set("max_connections", connections).start()
}

fn shelf_url(server: &Server) -> String {
    server.url()
}
