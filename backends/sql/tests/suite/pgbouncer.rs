mod factory;
mod shelf;

use std::ops::Deref;
use std::time::Duration;

use lockwright_conformance::Harm;
use lockwright_sql::Postgres as Backend;
use lockwright_sql::postgres::check_fence;
use lockwright_testbed::{PgBouncer, Postgres, Result};
use sqlx::postgres::{PgPool as Pool, PgPoolOptions as PoolOptions};

pub(crate) use self::factory::main;

const LABEL: Option<&str> = Some("postgres-lease through PgBouncer");
const HARMS: &[Harm] = &[Harm::Freeze, Harm::Cut];
const HELD_TTL: Duration = Duration::from_secs(8);
const BEGIN: &str = "BEGIN";
const PUT: &str = "INSERT INTO shelf (name, value) VALUES ($1, $2) \
                   ON CONFLICT (name) DO UPDATE SET value = $2";
const GET: &str = "SELECT value FROM shelf WHERE name = $1";

struct Server {
    pooler: PgBouncer,
    postgres: Postgres,
}

fn start(_connections: &str) -> Result<Server> {
    let postgres = Postgres::start()?;
    let pooler = PgBouncer::in_front_of(&postgres)
        .set("default_pool_size", "8")
        .set("max_client_conn", "1000")
        .start()?;
    Ok(Server { pooler, postgres })
}

fn shelf_url(server: &Server) -> String {
    server.postgres.url()
}

impl Deref for Server {
    type Target = PgBouncer;

    fn deref(&self) -> &PgBouncer {
        &self.pooler
    }
}

impl Server {
    fn restart(&mut self, _keep_data: bool) -> Result<()> {
        self.pooler.restart()
    }

    fn sql_as_user(&self, statements: &str) -> Result<String> {
        self.postgres.sql_as_user(statements)
    }
}
